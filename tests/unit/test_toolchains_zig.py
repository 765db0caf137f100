"""The compiler and linker calls: same bytes from any folder, nothing of the host, and errors that can be replayed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelfarm.errors import Code, FarmError, Status
from toolchains import gate, machines, process, target, zig
from toolchains import ir as ir_text

V4 = target.load("x86-64-v4")
TILE = (
    "define hidden void @tile(ptr %ctx, i64 %b, i64 %e) #0 !kcfi_type !1 {{\n  ret void\n}}\n"
    "@kf_table = constant {{ [22 x i32], i64, i32, i32, ptr }} {{ [22 x i32] [i32 1263814193, i32 112, i32 1, i32 4096,"
    " i32 1, i32 0, i32 0, i32 0, i32 88, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0,"
    " i32 64, i32 0], i64 7, i32 1774936839, i32 0, ptr @tile }}\n"
    'attributes #0 = {{ nounwind "target-cpu"="x86-64-v4" }}\n'
    "!1 = !{{i32 1774936839}}\n"
    "!llvm.module.flags = !{{!2, !3, !4{flags}}}\n"
    '!2 = !{{i32 4, !"kcfi", i32 1}}\n!3 = !{{i32 4, !"cfi-normalize-integers", i32 1}}\n'
    '!4 = !{{i32 8, !"PIC Level", i32 2}}\n'
)


def ir(*, control_flow: bool = True) -> str:
    """A module of one empty tile and its table."""
    text = 'source_filename = "kernel"\n' + TILE.format(flags="")
    return ir_text.add_module_flags(text, V4) if control_flow else text


def test_ir_becomes_a_kernel_object_with_id_pad_and_note(tmp_path: Path) -> None:
    (tmp_path / "k.ll").write_text(ir())

    zig.compile_ir(tmp_path / "k.ll", tmp_path / "k.o", V4)
    zig.link_kernels([tmp_path / "k.o"], tmp_path / "kernels.so", V4)

    facts = gate.inspect(tmp_path / "kernels.so")
    assert [(e.stored_id, e.landing_pad) for e in facts.elf.entries] == [(1774936839, True)]
    assert facts.elf.notes == ("ibt", "shstk")
    assert facts.elf.exports == ("kf_table",)
    assert not (tmp_path / ".link-kernels.so").exists()


def test_ir_without_control_flow_flags_does_not_link(tmp_path: Path) -> None:
    (tmp_path / "k.ll").write_text(ir(control_flow=False))
    zig.compile_ir(tmp_path / "k.ll", tmp_path / "k.o", V4)

    with pytest.raises(FarmError) as caught:
        zig.link_kernels([tmp_path / "k.o"], tmp_path / "kernels.so", V4)

    assert caught.value.code is Code.TOOL_FAILED
    assert "GNU_PROPERTY_X86_FEATURE_1_IBT" in caught.value.why


def test_undefined_symbols_do_not_link(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("void missing(void);\nvoid kf_table(void);\nvoid kf_table(void) { missing(); }\n")
    zig.compile_c(tmp_path / "k.c", tmp_path / "k.o", V4)

    with pytest.raises(FarmError) as caught:
        zig.link_kernels([tmp_path / "k.o"], tmp_path / "kernels.so", V4)

    assert "undefined symbol: missing" in caught.value.why


def test_order_of_objects_and_folder_do_not_change_the_bytes(tmp_path: Path) -> None:
    results = []
    for place, backwards in (("a", False), ("dep th/ü/b", True)):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "k.ll").write_text(ir())
        (folder / "m.c").write_text("const char *where(void);\nconst char *where(void) { return __FILE__; }\n")
        zig.compile_ir(folder / "k.ll", folder / "k.o", V4)
        zig.compile_c(folder / "m.c", folder / "m.o", V4)
        objects = [folder / "k.o", folder / "m.o"]
        zig.link_kernels(objects[::-1] if backwards else objects, folder / "kernels.so", V4)
        results.append((folder / "kernels.so").read_bytes())

    assert results[0] == results[1]


def test_a_compile_error_keeps_the_message_and_can_be_replayed(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int f(void) { return x; }\n")

    with pytest.raises(FarmError) as caught:
        zig.compile_c(tmp_path / "bad.c", tmp_path / "bad.o", V4)

    error = caught.value
    assert (error.code, error.status) == (Code.TOOL_FAILED, Status.BAD)
    assert "use of undeclared identifier 'x'" in error.why
    replayed = subprocess.run(error.detail["replay"], shell=True, capture_output=True, text=True, check=False)
    assert "use of undeclared identifier 'x'" in replayed.stderr


def test_headers_of_the_host_are_not_seen(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("#include <stdio.h>\nint f(void);\nint f(void) { return 0; }\n")

    with pytest.raises(FarmError) as caught:
        zig.compile_c(tmp_path / "k.c", tmp_path / "k.o", V4)
    assert "'stdio.h' file not found" in caught.value.why


def test_the_date_cannot_be_compiled_in(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("const char *f(void);\nconst char *f(void) { return __DATE__; }\n")

    with pytest.raises(FarmError) as caught:
        zig.compile_c(tmp_path / "k.c", tmp_path / "k.o", V4)
    assert "date-time" in caught.value.why


def test_two_objects_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        zig.link_kernels([tmp_path / "a" / "k.o", tmp_path / "b" / "k.o"], tmp_path / "kernels.so", V4)
    assert caught.value.code is Code.INTERNAL


def test_a_tool_that_computes_for_ever_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        process.run_tool(["/bin/sh", "-c", "while :; do :; done"], cwd=tmp_path, cpu_s=1, what="spinning")
    assert caught.value.code is Code.TOOL_TIMEOUT
    assert "while :; do :; done" in caught.value.detail["replay"]


def test_a_tool_that_only_waits_for_the_machine_is_not_stopped(tmp_path: Path) -> None:
    said = process.run_tool(["/bin/sh", "-c", "/bin/sleep 2; echo done"], cwd=tmp_path, cpu_s=1, what="waiting")
    assert said == "done\n"


def test_a_tool_keeps_a_lower_limit_of_the_compile_around_it() -> None:
    script = (
        "from pathlib import Path; from toolchains import process; "
        "print(process.run_tool(['/bin/sh', '-c', 'ulimit -t'], cwd=Path('.'), what='asking'))"
    )
    limited = ["/bin/sh", "-c", 'ulimit -S -t 99; exec "$@"', "sh", sys.executable, "-c", script]
    assert subprocess.run(limited, capture_output=True, text=True, check=True).stdout.strip() == "99"


def test_a_tool_that_is_not_there_is_an_environment_error(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        process.run_tool([str(tmp_path / "zig")], cwd=tmp_path, what="compiling")
    assert caught.value.code is Code.TOOL_MISSING
    assert caught.value.status is Status.ENVIRONMENT


def test_a_tool_killed_by_a_signal_says_which(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        process.run_tool(["/bin/sh", "-c", "kill -9 $$"], cwd=tmp_path, what="compiling")
    assert "signal 9" in caught.value.what


def test_module_flags_are_added_behind_the_others() -> None:
    text = '!llvm.module.flags = !{!0}\n\n!0 = !{i32 8, !"PIC Level", i32 2}\n'

    assert ir_text.add_module_flags(text, V4) == (
        '!llvm.module.flags = !{!0, !1, !2}\n\n!0 = !{i32 8, !"PIC Level", i32 2}\n'
        '!1 = !{i32 8, !"cf-protection-branch", i32 1}\n!2 = !{i32 8, !"cf-protection-return", i32 1}\n'
    )
    assert machines.MACHINES["x86-64"].elf_machine == 62
