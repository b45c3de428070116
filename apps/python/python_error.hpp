// Passes Troupe's errors to Python as one class, `troupe.Error`, with the sentence and the kind.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::apps {

/// An error that becomes `troupe.Error` when it reaches Python.
class python_error : public std::exception {
 public:
  explicit python_error(core::error why) : why_(std::move(why)) {}
  [[nodiscard]] const core::error& why() const { return why_; }
  [[nodiscard]] const char* what() const noexcept override { return why_.text.c_str(); }

 private:
  core::error why_;
};

/// Returns a sentence as Python text; bytes that are not UTF-8, as in paths, are escaped.
nanobind::object text_of(const std::string& text);

/// Adds the class to the module and translates python_error into it.
void add_error(nanobind::module_& m);
/// Adds the class of the module troupe._native, which is imported, to another module, and translates python_error into
/// it.
void share_error(nanobind::module_& m);

/// Returns the kind of this name, as `kind` of troupe.Error has it; nullopt: there is none.
std::optional<core::error_kind> kind_named(std::string_view name);

/// Returns the result's value; throws its error as a python_error.
template <class T>
T value_or_throw(core::result<T>&& r) {
  if (!r) throw python_error(std::move(r.error()));
  if constexpr (!std::is_void_v<T>) return std::move(*r);
}

}  // namespace troupe::apps
