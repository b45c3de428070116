// For children of tests: a limit of threads and processes of their user, as `ulimit -u` and containers set it.
#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/capability.h>

namespace troupe::tests {

/// A user id that no other process has: only the child is counted.
inline uid_t user_of_one() { return static_cast<uid_t>(1000000000) + static_cast<uid_t>(::getpid()); }
inline constexpr uid_t nobody = 65534;  // where a container maps few users

inline void limit_threads(rlim_t n) {
  const rlimit limit{n, n};
  if (::setrlimit(RLIMIT_NPROC, &limit) != 0) ::_exit(125);
}

/// Before exec. The limit does not bind root, so the real user changes and the two capabilities that lift it go; files
/// are read as before.
inline void allow_threads_after_exec(rlim_t n) {
  if (::geteuid() == 0) {
    ::prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0);
    ::prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0);
    if (::setresuid(user_of_one(), 0, 0) != 0 && ::setresuid(nobody, 0, 0) != 0) ::_exit(124);
  }
  limit_threads(n);
}

/// The same for a child that continues without exec: it loses root's rights.
inline void allow_threads(rlim_t n) {
  if (::geteuid() == 0) {
    const uid_t user = user_of_one();
    if (::setresuid(user, user, user) != 0 && ::setresuid(nobody, nobody, nobody) != 0) ::_exit(124);
  }
  limit_threads(n);
}

}  // namespace troupe::tests
