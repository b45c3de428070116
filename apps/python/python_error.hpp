// How Troupe's errors reach Python: as one class, `troupe.Error`, with the sentence and the kind.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "core/error.hpp"

namespace troupe::apps {

/// What is thrown towards Python; becomes `troupe.Error` there.
class python_error : public std::exception {
 public:
  explicit python_error(core::error why) : why_(std::move(why)) {}
  [[nodiscard]] const core::error& why() const { return why_; }
  [[nodiscard]] const char* what() const noexcept override { return why_.text.c_str(); }

 private:
  core::error why_;
};

/// A sentence as Python's text: paths in it may hold bytes that are no UTF-8.
nanobind::object text_of(const std::string& text);

/// Makes the class in the module and lets python_error become it.
void add_error(nanobind::module_& m);

/// The value, or what went wrong thrown.
template <class T>
T value_or_throw(core::result<T>&& r) {
  if (!r) throw python_error(std::move(r.error()));
  if constexpr (!std::is_void_v<T>) return std::move(*r);
}

}  // namespace troupe::apps
