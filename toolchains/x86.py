"""Which x86 instructions a target does not have: by their names, since neither disassembler nor assembler of LLVM asks.

Everything that compilers emit beyond x86-64 with SSE2 and that the named features do not cover is in these lists; the
encoding of AVX-512 (EVEX) is recognised by its first byte, because its names are often those of AVX.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from toolchains.target import Target

_EVEX = 0x62
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "adx": r"ad[co]x[lq]?",
        "aes": r"v?aes(enc|dec|imc|keygen)\w*",
        "amx": r"(tile|tdp|tcmm|t2rp|ttdp)\w*|(ld|st)tilecfg",
        "avx": r"v(?!err|erw|m(call|launch|resume|xo|clear|ptr|read|write|func|mcall|run|load|save))\w+",
        "avx512bf16": r"v\w*bf16\w*",
        "avx512bitalg": r"vpopcnt[bw]|vpshufbitqmb",
        "avx512er": r"v(exp2|rcp28|rsqrt28)\w+",
        "avx512f": r"k(mov|and|andn|or|xor|xnor|not|test|ortest|shift[lr]|unpck|add)\w*",
        "avx512fp16": r"v(?!cvtps2ph\b)\w+(ph|sh)x?|vcvtt?(ph|sh)2(?!ps\b)\w+",
        "avx512ifma": r"vpmadd52\w+",
        "avx512pf": r"v(gather|scatter)pf\w+",
        "avx512vbmi": r"vperm(b|i2b|t2b)|vpmultishiftqb",
        "avx512vbmi2": r"vpsh[lr]dv?[wdq]|vp(compress|expand)[bw]",
        "avx512vnni": r"vpdp\w+|v4f\w+|vp4dp\w+",
        "avx512vp2intersect": r"vp2intersect\w+",
        "avx512vpopcntdq": r"vpopcnt[dq]",
        "avxneconvert": r"v(bcstne|cvtne)\w+",
        "bmi": r"(andn|bextr|bls(i|r|msk)|tzcnt)[lqw]?",
        "bmi2": r"(bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx)[lq]?",
        "clflushopt": r"clflushopt|clwb|cldemote|clzero|ptwrite\w?|wbnoinvd",
        "cx16": r"cmpxchg16b",
        "cmpccxadd": r"cmp\w+xadd|a(add|and|or|xor)[lq]?",
        "f16c": r"vcvtph2ps|vcvtps2ph",
        "fma": r"vfn?m(add|sub|addsub|subadd)(132|213|231)\w+",
        "fma4": r"vfn?m(add|sub|addsub|subadd)[ps][sd]",
        "fsgsbase": r"(rd|wr)[fg]sbase[lq]?",
        "gfni": r"v?gf2p8\w+",
        "lzcnt": r"lzcnt[lqw]?",
        "mmx-3dnow": r"pf(?!etch)\w+|pi2f\w+|pswapd|femms|pavgusb|pmulhrw",
        "movbe": r"movbe[lqw]?",
        "movdiri": r"movdir\w+|enqcmds?",
        "pclmul": r"v?pclmul\w+",
        "popcnt": r"popcnt[lqw]?",
        "rdrnd": r"rd(rand|seed|pid|pru)[lqw]?",
        "rtm": r"x(begin|end|abort|test)",
        "sha": r"v?sha(1|256|512)\w+|vsm[34]\w+",
        "sse3": r"(addsub|hadd|hsub)p[sd]|lddqu|movddup|movs[hl]dup|fisttp\w*",
        "sse4.1": r"p?blend\w+|dpp[sd]|extractps|insertps|movntdqa|mpsadbw|packusdw|pcmpeqq|pextr[bdq]|phminposuw"
        r"|pinsr[bdq]|p(max|min)(sb|sd|ud|uw)|pmov[sz]x\w+|pmuldq|pmulld|ptest|round[ps][sd]",
        "sse4.2": r"crc32[bwlq]?|pcmp[ei]str\w+|pcmpgtq",
        "sse4a": r"extrq|insertq|movnts[sd]",
        "ssse3": r"pabs[bwd]|palignr|ph(add|sub)(s?w|d)|pmaddubsw|pmulhrsw|pshufb|psign[bwd]",
        "tbm": r"blc(fill|i|ic|msk|s)[lq]?|bls(fill|ic)[lq]?|t1mskc[lq]?|tzmsk[lq]?",
        "waitpkg": r"umwait|umonitor|tpause|monitorx?|mwaitx?",
        "xop": r"vpcom(?!press)\w*|vph(add|sub)u?(bw|bd|bq|wd|wq|dq)|vpmac\w+|vpmadcs\w+|vpperm|vprot[bwdq]"
        r"|vpsh[al][bwdq]|vpermil2\w+|vfrcz\w+|vpcmov",
    }
)
_BELOW_AVX = frozenset({"cx16", "sse3", "ssse3", "sse4.1", "sse4.2"})
"""What every processor with AVX has."""
_NAMED = {feature: re.compile(rf"(?:{names})(?=\s|$)") for feature, names in _NAMES.items()}
_APX = re.compile(r"%r(1[6-9]|2\d|3[01])[bwd]?\b")
_PREFIX = re.compile(r"^(?:(?:rep\w*|lock|data16|addr32|notrack|cs|ds|es|fs|gs|ss|\{\w+\})\s+)+")


def foreign(target: Target, forms: Sequence[tuple[str, int]]) -> list[tuple[int, str]]:
    """(address, why) of each instruction, given as (text, address), whose name the target's features do not cover."""
    has, found = _features(target), []
    for text, address in forms:
        bare = _PREFIX.sub("", text)
        lacking = "apx" if _APX.search(bare) else ""
        lacking = lacking or next((n for n, pattern in _NAMED.items() if n not in has and pattern.match(bare)), "")
        if lacking:
            found.append((address, f"{text} at {address:#x} needs {lacking}"))
    return found


def encodings(target: Target, first: Iterable[tuple[int, int]]) -> list[tuple[int, str]]:
    """(address, why) of each instruction, given as (address, first byte), whose encoding the features do not cover."""
    if "avx512f" in _features(target):
        return []
    return [(at, f"the instruction at {at:#x} is encoded as AVX-512") for at, byte in first if byte == _EVEX]


def _features(target: Target) -> set[str]:
    named = {feature[1:] for feature in target.cpu.features if feature.startswith("+")}
    return named | (_BELOW_AVX if "avx" in named else frozenset())
