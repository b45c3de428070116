// Defines the answers to questions about a simulated run, for tests: a verdict and a quantity, each with the text that
// a failing test prints, and the error of a question that has no answer.
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace troupe::sim {

/// A world that cannot be simulated, or a question that has no answer: an unknown instruction, rank, step or owner.
/// The error is an exception because a test would pass if a misspelt question had the answer that it wants.
class world_error : public std::runtime_error {
 public:
  explicit world_error(const core::error& why) : std::runtime_error(why.text), kind_(why.kind) {}
  [[nodiscard]] core::error_kind kind() const { return kind_; }

 private:
  core::error_kind kind_;
};

/// The answer to a question with yes or no. `text` states what was found; for a no, also the seed, how to replay the
/// run, and the lanes around the moment.
class verdict {
 public:
  verdict(bool holds, std::string text) : holds_(holds), text_(std::move(text)) {}
  explicit operator bool() const { return holds_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  bool holds_;
  std::string text_;
};

/// Returns yes if both are yes; else the first no.
verdict operator&&(const verdict& a, const verdict& b);
/// Writes the text of a verdict; Boost.Test prints it for a failed BOOST_TEST(verdict).
std::ostream& operator<<(std::ostream& out, const verdict& v);

/// A number that was found in a run. Its text states how it was found; Boost.Test prints it for a failed comparison,
/// such as BOOST_TEST(run.hidden("gather") > 0.9).
class quantity {
 public:
  /// `text` follows the number in the printed form.
  quantity(double value, std::string text) : value_(value), text_(std::move(text)) {}
  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] std::string text() const;
  /// True if the number is above (below) `limit`, as a verdict that keeps the text.
  [[nodiscard]] verdict above(double limit) const;
  [[nodiscard]] verdict below(double limit) const;

  friend std::partial_ordering operator<=>(const quantity& a, double b) { return a.value_ <=> b; }
  friend bool operator==(const quantity& a, double b) { return a.value_ == b; }
  friend std::partial_ordering operator<=>(const quantity& a, const quantity& b) { return a.value_ <=> b.value_; }
  friend bool operator==(const quantity& a, const quantity& b) { return a.value_ == b.value_; }

 private:
  double value_;
  std::string text_;
};

/// Writes the text of a quantity.
std::ostream& operator<<(std::ostream& out, const quantity& q);

}  // namespace troupe::sim
