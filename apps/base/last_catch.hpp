// Ends a program whose main receives an exception, which is always a fault: one sentence, exit code 1. Troupe's
// functions return errors; the standard library, Torch and the code that they call throw.
#pragma once

#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "apps/base/error_line.hpp"

namespace troupe::apps {

inline bool has_working_directory() {
  std::error_code gone;
  (void)std::filesystem::current_path(gone);
  return !gone;
}
inline constexpr const char* no_working_directory =
    "the working directory does not exist any more: change to one that exists";

/// Returns the exit code of `body`, or 1 if it threw; destructors have then removed incomplete results. The printed
/// sentence begins with `who`.
int with_last_catch(auto body, const char* who = "") {
  const auto say = [who](const char* what) {
    print_error_line(std::string("troupe: error: ") + who + what);
    return 1;
  };
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return say("there is not enough memory for this");
  } catch (const std::filesystem::filesystem_error& e) {
    // without a working directory, any use of a relative path throws
    return say(has_working_directory() ? e.what() : no_working_directory);
  } catch (const std::exception& e) {
    return say(e.what());
  } catch (...) {
    return say("an unknown exception was thrown");
  }
}

}  // namespace troupe::apps
