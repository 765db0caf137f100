"""Translation validation: each group's machine code against the dialect's reference interpreter, while it is built.

After Pnueli, Siegel and Singerman, "Translation validation" (TACAS 1998): not the compiler is proved, but each of its
results is checked. A kernel that answers wrongly fails the build, and no payload with it exists.
"""

from kernelc.validation.check import validate

__all__ = ["validate"]
