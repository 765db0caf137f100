/* What a program without libc consists of: start_<machine>.c calls program_main and exits with what it returns. */
#ifndef KF_PROGRAM_H
#define KF_PROGRAM_H

int program_main(int argc, char **argv);

#endif
