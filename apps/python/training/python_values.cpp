#include "apps/python/training/python_values.hpp"

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "apps/python/python_error.hpp"
#include "apps/python/tensor_types.hpp"
#include "apps/python/training/python_session.hpp"
#include "config/document/document.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

namespace nb = nanobind;
using config::job_value;

/// Most characters of a value that a message shows.
constexpr Py_ssize_t most_shown = 60;

/// Returns a value as Python shows it, cut if it is long.
std::string shown_value(nb::handle value) {
  const nb::object text = nb::steal(PyObject_Repr(value.ptr()));
  if (!text.is_valid()) nb::raise_python_error();
  const nb::object cut = nb::steal(PyUnicode_Substring(text.ptr(), 0, most_shown));
  std::string out;
  if (!cut.is_valid() || !nb::try_cast(cut, out)) {
    PyErr_Clear();
    return "a value that has no text";
  }
  return out;
}

[[noreturn]] void refuse(const std::string& where, std::string_view wanted, nb::handle got) {
  throw python_error(
      {core::error_kind::bad_input, fmt::format("{}: wanted {}, got {}", where, wanted, shown_value(got))});
}

std::string name_of_key(const std::string& where, nb::handle key) {
  std::string out;
  if (PyUnicode_Check(key.ptr()) == 0 || !nb::try_cast(key, out)) refuse(where, "texts as names of keys", key);
  return out;
}

/// Returns a whole number of Python's, or of a library whose integers are not Python's.
job_value whole_number(const std::string& where, nb::handle value) {
  const nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
  if (!whole.is_valid()) nb::raise_python_error();
  if (int64_t n = 0; nb::try_cast(whole, n)) return n;
  if (uint64_t n = 0; nb::try_cast(whole, n)) return n;
  refuse(where, "a whole number of 64 bits", value);
}

/// Returns a value of the key `where`, nested in `depth` lists and dictionaries.
job_value value_of(const std::string& where, nb::handle value, int depth) {
  PyObject* const x = value.ptr();
  if (value.is_none()) return job_value::none();
  if (PyBool_Check(x)) return job_value(x == Py_True);
  if (PyFloat_Check(x)) return job_value(PyFloat_AsDouble(x));
  if (PyUnicode_Check(x)) {
    std::string text;
    if (!nb::try_cast(value, text)) refuse(where, "UTF-8 text", value);
    return job_value(text);
  }
  if (PyIndex_Check(x)) return whole_number(where, value);
  const bool is_dict = PyDict_Check(x), is_list = PyList_Check(x), is_tuple = PyTuple_Check(x);
  if ((is_dict || is_list || is_tuple) && depth >= config::deepest_nesting)
    throw python_error({core::error_kind::bad_input,
                        fmt::format("{}: wanted at most {} levels of nesting", where, config::deepest_nesting)});
  if (is_dict) {
    std::vector<std::pair<std::string, job_value>> entries;
    for (const auto& [key, inner] : nb::borrow<nb::dict>(value)) {
      std::string name = name_of_key(where, key);
      job_value of_key = value_of(where + "." + name, inner, depth + 1);
      entries.emplace_back(std::move(name), std::move(of_key));
    }
    return job_value::mapping(std::move(entries));
  }
  if (is_list || is_tuple) {
    std::vector<job_value> items;
    for (const nb::handle item : nb::borrow<nb::object>(value)) items.push_back(value_of(where, item, depth + 1));
    return job_value::list(std::move(items));
  }
  if (std::filesystem::path path; PyObject_HasAttrString(x, "__fspath__") != 0 && nb::try_cast(value, path))
    return job_value(path);
  PyErr_Clear();
  refuse(where, "None, a truth value, a number, a text, a path, a list or a dictionary", value);
}

}  // namespace

config::job_builder builder_of(const nb::dict& keys) {
  config::job_builder out;
  for (const auto& [key, value] : keys) {
    const std::string name = name_of_key("config", key);
    out.set(name, value_of(core::shown(name), value, 0));
  }
  return out;
}

nb::tuple tensor_of(std::vector<float>&& values, const std::vector<int64_t>& shape) {
  auto owned = std::make_unique<std::vector<float>>(std::move(values));
  float* const data = owned->data();
  const nb::capsule owner(owned.get(), [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  (void)owned.release();  // the capsule owns the memory
  const std::vector<size_t> sizes(shape.begin(), shape.end());
  const nb::ndarray<nb::array_api, float> array(data, sizes.size(), sizes.data(), owner);
  return nb::make_tuple(type_name(core::dtype::f32), shape_tuple(shape), array);
}

nb::tuple view_of(const actors::state_view& seen, const std::vector<int64_t>& shape) {
  using held = std::shared_ptr<const void>;
  auto owned = std::make_unique<held>(seen.memory);
  const nb::capsule owner(owned.get(), [](void* p) noexcept { delete static_cast<held*>(p); });
  (void)owned.release();  // the capsule owns the pointer
  const std::vector<size_t> sizes(shape.begin(), shape.end());
  const nb::ndarray<nb::array_api, nb::ro> array(seen.data, sizes.size(), sizes.data(), owner, nullptr,
                                                 dlpack_type(seen.type));
  return nb::make_tuple(type_name(seen.type), shape_tuple(shape), array);
}

held_values<float> floats_in(const char* where, const nb::object& given) {
  held_values<float> out;
  if (!nb::try_cast(given, out, /*convert=*/false))
    refuse(where, "contiguous float32 values in the processor's memory, such as an array of numpy or a tensor of torch",
           given);
  return out;
}

held_rows rows_of_tokens_in(const char* where, const nb::object& given) {
  held_rows out;
  if (!nb::try_cast(given, out, /*convert=*/false))
    refuse(where, "contiguous rows of int64 tokens in the processor's memory, of a shape [samples, tokens]", given);
  return out;
}

std::vector<uint8_t> flags_in(const char* where, const nb::object& given) {
  if (held_values<bool> flags; nb::try_cast(given, flags, /*convert=*/false)) {
    std::vector<uint8_t> out;
    out.reserve(flags.size());
    for (size_t i = 0; i < flags.size(); ++i) out.push_back(flags.data()[i] ? 1 : 0);
    return out;
  }
  held_values<uint8_t> numbers;
  if (!nb::try_cast(given, numbers, /*convert=*/false))
    refuse(where, "contiguous truth values or uint8 numbers in the processor's memory", given);
  return {numbers.data(), numbers.data() + numbers.size()};
}

}  // namespace troupe::apps
