// What programs that a test starts are told by ASAN_OPTIONS, where they are built with the address sanitizer; nothing
// elsewhere.
#pragma once

#include <cstdlib>
#include <string>

namespace troupe::tests {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool has_address_sanitizer = true;
#else
inline constexpr bool has_address_sanitizer = false;
#endif

/// Processes that are started from now on end without a search for leaks, which wants a thread and /proc.
inline constexpr const char* no_leak_check = "detect_leaks=0";
/// They may have libraries that LD_PRELOAD puts before the sanitizer's.
inline constexpr const char* any_link_order = "verify_asan_link_order=0";
/// They give memory back when it is freed, and keep no record of who had it.
inline constexpr const char* no_kept_memory =
    "quarantine_size_mb=0:thread_local_quarantine_size_kb=0:malloc_context_size=0:detect_stack_use_after_return=0";

inline void add_sanitizer_options(const std::string& more) {
  const char* const given = std::getenv("ASAN_OPTIONS");
  ::setenv("ASAN_OPTIONS", (std::string(given == nullptr ? "" : given) + ":" + more).c_str(), 1);
}

}  // namespace troupe::tests
