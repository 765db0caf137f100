"""Which x86 instructions a target has: by their names, since neither disassembler nor assembler of LLVM asks.

An instruction is taken only if a list of a feature that the target has names it, or that of every x86-64 processor; so
one that nobody thought of is refused. Those of features it lacks are named with them. The encoding of AVX-512 (EVEX) is
recognised by its first byte, because its names are often those of AVX.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from toolchains.target import Target

_EVEX = 0x62
_WORD = "[bwlq]?"
_CONDITION = "n?(?:[abgl]e?|[cz]|[eops])|p[eo]"
_BASE = (
    rf"(?:ad[cd]|and|bs[fr]|bt[crs]?|bswap|cmp|cmpxchg|dec|i?div|i?mul|inc|lea|movs?|movnti|neg|not|x?or|pop|push|rc[lr]"
    rf"|ro[lr]|sa[lr]|sbb|sh[lr]d?|sub|test|xadd|xchg|nop|stos|lods|scas|cmps){_WORD}"
    rf"|movabs[bwlq]?|mov[sz](?:bw|bl|bq|wl|wq|lq)|cmov(?:{_CONDITION})[wlq]?|set(?:{_CONDITION})|j(?:{_CONDITION})"
    r"|jmp[q]?|callq?|retq?|leaveq?|c[lw]t[dl]|cqto|cltq|cbtw|cwt[ld]|cld|endbr64|ud2|int3|pause|jrcxz"
    r"|[lms]fence|prefetch(?:nta|t[012])"
)
"""Of every x86-64 processor and in user code, as AT&T syntax writes it; SSE and SSE2 are below, x87 in no list."""
_SSE = (
    r"(?:add|sub|mul|div|max|min|sqrt|cmp\w*)[ps][sd]|(?:rcp|rsqrt)[ps]s|u?comis[sd]|(?:andn?|x?or|unpck[hl]|shuf)p[sd]"
    r"|mov(?:[au]p|[hl]p|ntp|mskp|s)[sd]|mov(?:hl|lh)ps|movntdq|movdq[au]|mov[dq]|movmskp[sd]"
    r"|cvt(?:dq2p[sd]|pd2(?:dq|ps)|ps2(?:dq|pd)|s[ds]2si[lq]?|sd2ss|ss2sd|si2s[sd][lq]?|t[ps]d2(?:dq|si[lq]?)"
    r"|tps2dq|tss2si[lq]?)|maskmovdqu|pmovmskb|p(?:add|sub)(?:[bwdq]|u?s[bw])|p(?:and|andn|or|xor)|pavg[bw]"
    r"|pcmp(?:eq|gt)[bwd]|p(?:max|min)(?:ub|sw)|pmaddwd|pmul(?:hu?w|lw|udq)|psadbw|pextrw|pinsrw"
    r"|(?:ld|st)mxcsr|pshuf(?:d|hw|lw)|ps(?:ll|rl)(?:[wdq]|dq)|psra[wd]|pack(?:ss(?:wb|dw)|uswb)|punpck[hl](?:bw|wd|dq|qdq)"
)
_AVX = (
    r"broadcast(?:s[sd]|f128)|(?:extract|insert|perm2)f128|maskmovp[sd]|permilp[sd]|testp[sd]|zero(?:all|upper)"
    r"|cmp\w*[ps][sd]"
)
_AVX2 = (
    r"broadcasti128|pbroadcast[bwdq]|(?:extract|insert|perm2)i128|perm(?:d|q|ps|pd)|pblendd|pmaskmov[dq]"
    r"|ps[lr]lv[dq]|psravd|p?gather[dq](?:p[sd]|[dq])"
)
_AVX512: Mapping[str, str] = MappingProxyType(
    {
        "avx512f": r"k(?:mov|and|andn|or|xor|xnor|not|ortest|shift[lr])w|kunpckbw|vmovdq[au](?:32|64)"
        r"|vp(?:and|andn|or|xor)[dq]|vpternlog[dq]|v(?:perm[it]2)(?:d|q|ps|pd)|v(?:p?blendm)(?:d|q|ps|pd)"
        r"|vbroadcast[fi](?:32x4|64x4)|v(?:extract|insert)[fi](?:32x4|64x4)|vshuf[fi](?:32x4|64x2)|valign[dq]"
        r"|v(?:rndscale|scalef|getexp|getmant|fixupimm)[ps][sd]|v(?:rcp|rsqrt)14[ps][sd]|vp(?:max|min)[su]q|vpabsq"
        r"|vpsra(?:q|vq)|vpro[lr]v?[dq]|vp(?:compress|expand)[dq]|v(?:compress|expand)p[sd]|vptestn?m[dq]"
        r"|vpcmp\w*[dq]|vpmov(?:u?s)?(?:qb|qw|qd|db|dw)|vcvtt?(?:p[sd]|s[sd])2u(?:dq|si[lq]?)|vcvtu(?:dq2p[sd]|si2s[sd][lq]?)"
        r"|vp?scatter[dq](?:p[sd]|[dq])",
        "avx512bw": r"k(?:mov|and|andn|or|xor|xnor|not|ortest|test|add|shift[lr])[dq]|kunpck(?:wd|dq)|vmovdqu(?:8|16)"
        r"|vpblendm[bw]|vpbroadcast[bw]|vperm(?:w|[it]2w)|vps(?:ll|rl|ra)vw|vptestn?m[bw]|vpcmp\w*[bw]|vpmov(?:u?s)?wb"
        r"|vpmov(?:[bw]2m|m2[bw])|vdbpsadbw",
        "avx512dq": r"k(?:mov|and|andn|or|xor|xnor|not|ortest|test|add|shift[lr])b|k(?:test|add)w|vpmullq"
        r"|vbroadcast[fi](?:32x2|32x8|64x2)|v(?:extract|insert)[fi](?:32x8|64x2)|v(?:range|reduce)[ps][sd]"
        r"|vfpclass[ps][sd][xyz]?|vcvtt?p[sd]2u?qq|vcvtu?qq2p[sd][xy]?|vpmov(?:[dq]2m|m2[dq])",
        "avx512cd": r"vpconflict[dq]|vplzcnt[dq]|vpbroadcastm(?:b2q|w2d)",
        "avx512vl": r"vcvt(?:pd2(?:ps|dq|udq)|ttp?pd2u?dq)[xy]",
    }
)
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
        "tbm": r"bextr[lq]?(?=\s+\$)|blc(fill|i|ic|msk|s)[lq]?|bls(fill|ic)[lq]?|t1mskc[lq]?|tzmsk[lq]?",
        "waitpkg": r"umwait|umonitor|tpause|monitorx?|mwaitx?",
        "xop": r"vpcom(?!press)\w*|vph(add|sub)u?(bw|bd|bq|wd|wq|dq)|vpmac\w+|vpmadcs\w+|vpperm|vprot[bwdq]"
        r"|vpsh[al][bwdq]|vpermil2\w+|vfrcz\w+|vpcmov",
    }
)
_BELOW_AVX = frozenset({"cx16", "sse3", "ssse3", "sse4.1", "sse4.2"})
"""What every processor with AVX has."""
_UNLISTED = frozenset({"avx", "avx512f"})
"""Features whose entry in `_NAMES` recognises more than they have."""
RUNTIME = r"syscall|cpuid|xgetbv|lock"
"""What a program asks of its processor and system beyond computing, as further names for `foreign`.

The prefix of what several threads change is disassembled as an instruction of its own; kernels have no use for it.
"""
_NAMED = {feature: re.compile(rf"(?:{names})(?=\s|$)") for feature, names in _NAMES.items()}
_APX = re.compile(r"%r(1[6-9]|2\d|3[01])[bwd]?\b")
_PREFIX = re.compile(r"^(?:(?:rep\w*|lock|data16|addr32|notrack|cs|ds|es|fs|gs|ss|\{\w+\})\s+)+")


def foreign(target: Target, forms: Sequence[tuple[str, int]], also: str = "") -> list[tuple[int, str]]:
    """(address, why) of each instruction, given as (text, address), that no list of the target's features names.

    `also` is a pattern of names that are taken besides.
    """
    has, found = _features(target), []
    taken = _taken(has, also)
    for text, address in forms:
        bare = _PREFIX.sub("", text)
        lacking = "apx" if _APX.search(bare) else ""
        lacking = lacking or next((n for n, pattern in _NAMED.items() if n not in has and pattern.match(bare)), "")
        if lacking:
            found.append((address, f"{text} at {address:#x} needs {lacking}"))
        elif not taken.match(bare):
            found.append((address, f"{text} at {address:#x} is not known to be of {target.cpu.name}"))
    return found


@cache
def _taken(has: frozenset[str], also: str) -> re.Pattern[str]:
    """What the names of instructions look like that these features have."""
    names = [_BASE, _SSE, also or "(?!)"]
    names += [_NAMES[feature] for feature in sorted((has & _NAMES.keys()) - _UNLISTED)]
    if "avx" in has:
        below = [_SSE, *(_NAMES[feature] for feature in sorted(_BELOW_AVX - {"cx16"})), _AVX]
        names.append(f"v(?:{'|'.join(below)})[xy]?")
    if "avx2" in has:
        names.append(f"v(?:{_AVX2})")
    names += [_AVX512[feature] for feature in sorted(has & _AVX512.keys())]
    return re.compile(rf"(?:{'|'.join(names)})(?=\s|$)")


def encodings(target: Target, first: Iterable[tuple[int, int]]) -> list[tuple[int, str]]:
    """(address, why) of each instruction, given as (address, first byte), whose encoding the features do not cover."""
    if "avx512f" in _features(target):
        return []
    return [(at, f"the instruction at {at:#x} is encoded as AVX-512") for at, byte in first if byte == _EVEX]


def _features(target: Target) -> frozenset[str]:
    named = frozenset(feature[1:] for feature in target.cpu.features if feature.startswith("+"))
    return named | (_BELOW_AVX if "avx" in named else frozenset())
