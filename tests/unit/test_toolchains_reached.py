"""Which files the code behind some names comes from, by the debug information of a small module."""

from __future__ import annotations

import pytest

from toolchains import reached

IR = """\
@table = internal constant [1 x ptr] [ptr @by_address], align 8
@offered = weak_odr hidden alias void (), ptr @"a.first one"
@unused = weak_odr hidden alias void (), ptr @other

define internal i32 @"a.first one"(i32 %0) #0 !dbg !10 {
  %2 = call i32 @called(i32 %0), !dbg !20
  %3 = load ptr, ptr @table, align 8
  ret i32 %2
}

define internal i32 @called(i32 %0) #0 !dbg !11 {
  ret i32 %0
}

define internal void @by_address() #0 !dbg !12 {
  ret void
}

define internal void @other() #0 !dbg !13 {
  ret void
}

!1 = distinct !DICompileUnit(file: !2, globals: !3)
!2 = !DIFile(filename: "unit.zig", directory: "lib")
!3 = !{!4}
!4 = !DIFile(filename: "global.zig", directory: "lib")
!5 = !DIFile(filename: "first.zig", directory: "lib")
!6 = !DIFile(filename: "called.zig", directory: "lib")
!7 = !DIFile(filename: "address.zig", directory: "lib")
!8 = !DIFile(filename: "other.zig", directory: "lib")
!9 = !DIFile(filename: "inlined.zig", directory: "lib")
!10 = distinct !DISubprogram(name: "one", scope: !5, file: !5, type: !15, unit: !1)
!11 = distinct !DISubprogram(name: "called", scope: !6, file: !6, unit: !1)
!12 = distinct !DISubprogram(name: "by_address", scope: !7, file: !7, unit: !1)
!13 = distinct !DISubprogram(name: "other", scope: !8, file: !8, unit: !1)
!14 = distinct !DISubprogram(name: "inlined", scope: !9, file: !9, unit: !1)
!15 = !DISubroutineType(types: !16)
!16 = !{!17}
!17 = !DICompositeType(name: "S", file: !18)
!18 = !DIFile(filename: "type.zig", directory: "lib")
!20 = !DILocation(line: 1, scope: !14, inlinedAt: !21)
!21 = !DILocation(line: 2, scope: !10)
"""


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["offered"], {"first.zig", "called.zig", "address.zig", "inlined.zig"}),
        (["unused"], {"other.zig"}),
        (["offered", "unused"], {"first.zig", "called.zig", "address.zig", "inlined.zig", "other.zig"}),
        ([], set()),
    ],
)
def test_only_the_files_of_code_that_the_names_lead_to(names: list[str], files: set[str]) -> None:
    assert reached.files(IR, names) == {(file, "lib") for file in files}


def test_of_a_whole_module_every_file_that_it_names() -> None:
    assert len(reached.files(IR)) == 8
