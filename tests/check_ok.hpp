// Ends a test if something that it needs has failed, with the reason and the place in the test.
#pragma once

#include <boost/test/unit_test.hpp>
#include <source_location>
#include <string>
#include <utility>

namespace troupe::tests {

/// Returns `r`, a core::result or a std::optional, which must hold a value; else the test ends with the error's text.
template <class Result>
Result check_ok(Result&& r, std::source_location at = std::source_location::current()) {
  std::string why = "holds nothing";
  if constexpr (requires { r.error().text; })
    if (!r) why = r.error().text;
  BOOST_REQUIRE_MESSAGE(r.has_value(), at.file_name() << ":" << at.line() << ": " << why);
  return std::forward<Result>(r);
}

/// Returns `r`, what a program left (`code`, `out`, `err`); if its exit code is not `code`, the test ends with `out`
/// and `err`.
template <class Finished>
Finished check_exit(int code, Finished r, std::source_location at = std::source_location::current()) {
  BOOST_REQUIRE_MESSAGE(r.code == code, at.file_name()
                                            << ":" << at.line() << ": exit code " << r.code << ": " << r.out << r.err);
  return r;
}

}  // namespace troupe::tests
