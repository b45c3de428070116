#include "apps/python/python_error.hpp"

#include <cstdint>

namespace troupe::apps {
namespace {

namespace nb = nanobind;

/// Returns the name of the error kind, as in core::error_kind.
const char* name_of(core::error_kind kind) {
  using enum core::error_kind;
  switch (kind) {
    case bad_input:
      return "bad_input";
    case io:
      return "io";
    case no_space:
      return "no_space";
    case limit:
      return "limit";
    case mismatch:
      return "mismatch";
    case stalled:
      return "stalled";
    case peer_lost:
      return "peer_lost";
    case numeric:
      return "numeric";
    case stopped:
      return "stopped";
    case bug:
      return "bug";
  }
  return "bug";
}

/// Translates python_error into the class `type`. The module `m` holds the reference to it.
void translate_into(nb::module_& m, const nb::object& type) {
  m.attr("Error") = type;
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* error_type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const python_error& e) {
          const nb::handle raises(static_cast<PyObject*>(error_type));
          nb::object raised = raises(text_of(e.why().text));
          raised.attr("kind") = name_of(e.why().kind);
          PyErr_SetObject(raises.ptr(), raised.ptr());
        }
      },
      type.ptr());
}

}  // namespace

nb::object text_of(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

std::optional<core::error_kind> kind_named(std::string_view name) {
  for (auto n = static_cast<uint8_t>(core::error_kind::bad_input); n <= static_cast<uint8_t>(core::error_kind::bug);
       ++n)
    if (const auto kind = static_cast<core::error_kind>(n); name == name_of(kind)) return kind;
  return std::nullopt;
}

void add_error(nb::module_& m) {
  const nb::object type = nb::steal(PyErr_NewExceptionWithDoc(
      "troupe.Error", "What went wrong, in one sentence: wanted, got, where. `kind` says who can mend it.", nullptr,
      nullptr));
  if (!type.is_valid()) nb::raise_python_error();
  translate_into(m, type);
}

void share_error(nb::module_& m) { translate_into(m, nb::getattr(nb::module_::import_("troupe._native"), "Error")); }

}  // namespace troupe::apps
