// Installs filters of system calls as container engines do: the kernel refuses the named calls and allows all others.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace troupe::tests {

/// Makes the kernel refuse `call`, with errno `number`, to this thread and to all threads and programs that it starts.
/// Returns false if the kernel refuses the filter.
inline bool forbid(uint32_t call, int number = EPERM) {
  sock_filter program[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<uint32_t>(number)},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog filter{std::size(program), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

inline constexpr int no_filter = 125;  ///< exit code of a child if the kernel refuses the filter

/// Makes the kernel refuse io_uring, as in a container. A child calls this before it executes its program.
inline void forbid_io_uring() {
  for (const uint32_t call : {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register})
    if (!forbid(call)) ::_exit(no_filter);
}

}  // namespace troupe::tests
