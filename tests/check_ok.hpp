// Ends a test if something that it needs has failed, or if something has not failed as it should, with the reason and
// the place in the test.
#pragma once

#include <boost/test/unit_test.hpp>
#include <source_location>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace troupe::tests {

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Returns `r`, a core::result or a std::optional, which must hold a value; else the test ends with the error's text.
/// The result is a reference: a variable that keeps it is not declared as one.
template <class Result>
Result&& check_ok(Result&& r, std::source_location at = std::source_location::current()) {
  std::string why = "holds nothing";
  if constexpr (requires { r.error().text; })
    if (!r) why = r.error().text;
  BOOST_REQUIRE_MESSAGE(r.has_value(), at.file_name() << ":" << at.line() << ": " << why);
  return std::forward<Result>(r);
}

/// Checks that `r` failed with error kind `kind` and that its text contains `words`.
template <class T>
void check_failed(const core::result<T>& r, core::error_kind kind, const std::string& words = "",
                  std::source_location at = std::source_location::current()) {
  BOOST_TEST_INFO_SCOPE(at.file_name() << ":" << at.line());
  BOOST_REQUIRE_MESSAGE(!r, "was accepted; wanted: " << words);
  BOOST_TEST(static_cast<int>(r.error().kind) == static_cast<int>(kind), r.error().text);
  BOOST_TEST(has(r.error().text, words), r.error().text << " | wanted: " << words);
}

/// Checks that `r` failed and that its text contains `words`.
template <class T>
void check_failed(const core::result<T>& r, const std::string& words,
                  std::source_location at = std::source_location::current()) {
  check_failed(r, r ? core::error_kind::bug : r.error().kind, words, at);
}

/// Checks that `r` failed and that `text` is its whole text.
template <class T>
void check_error(const core::result<T>& r, const std::string& text,
                 std::source_location at = std::source_location::current()) {
  check_failed(r, text, at);
  BOOST_TEST(r.error().text == text);
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
