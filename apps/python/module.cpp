// Owns the extension module `troupe._native`: Python functions that run the checkpoint commands. Leaves the public API
// and the form of results to python/troupe/checkpoint.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/base/programs.hpp"
#include "apps/checkpoint/checkpoint_show.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/python/conversions.hpp"
#include "apps/python/interruptible.hpp"
#include "apps/python/python_error.hpp"
#include "apps/python/tensor_types.hpp"
#include "apps/python/weights.hpp"
#include "formats/report/inspect.hpp"
#include "formats/report/verify.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace troupe::apps {
namespace {

using path = std::filesystem::path;

/// Refuses an argument that is an empty text, such as the value of a variable that is not set. None is accepted.
void refuse_empty(const char* name, const auto& given) {
  const bool is_empty = [&] {
    if constexpr (requires { given.has_value(); })
      return given.has_value() && given->empty();
    else
      return given.empty();
  }();
  if (is_empty) throw python_error({core::error_kind::bad_input, std::string(name) + ": wanted a text, got ''"});
}

/// Returns the number that an argument holds; none for None. Refuses True and False, which Python counts as 1 and 0.
std::optional<double> number_in(const char* name, const nb::object& given) {
  if (given.is_none()) return std::nullopt;
  double out = 0;
  if (PyBool_Check(given.ptr()) != 0 || !nb::try_cast(given, out))
    throw python_error(
        {core::error_kind::bad_input, std::string(name) + ": wanted a number, got " + nb::repr(given).c_str()});
  return out;
}

/// Number of checkpoints that a function opens. A tag applies to the first one alone, so that only a function that
/// opens two may have both a tag and the option to fall back to a previous checkpoint.
enum class how_many : uint8_t { one, two };

/// A checkpoint to open, and the notes that arise while it is read; each note becomes a Python warning.
class source {
 public:
  source(const path& at, const std::optional<std::string>& tag, const std::optional<path>& map, bool fallback,
         how_many opens = how_many::one)
      : arguments_{.path = at.string(),
                   .tag = tag.value_or(""),
                   .map = map.value_or("").string(),
                   .fallback_to_previous = fallback,
                   .older_by = "fallback_to_previous=True",
                   .verbosity = verbosity::quiet} {
    refuse_empty("path", at);
    refuse_empty("tag", tag);
    refuse_empty("map", map);
    if (tag && fallback && opens == how_many::one)
      throw python_error(
          {core::error_kind::bad_input,
           "fallback_to_previous: cannot be combined with tag, which names one checkpoint: leave out one "
           "of them"});
    arguments_.note = [this](const std::string& line) { notes_.push_back(line); };
  }
  source(const source&) = delete;
  source& operator=(const source&) = delete;

  [[nodiscard]] const source_arguments& arguments() const { return arguments_; }
  void warn() const {
    constexpr int of_the_caller = 2;  // stack level of the caller of checkpoint.py
    for (const auto& line : notes_)
      if (PyErr_WarnFormat(PyExc_UserWarning, of_the_caller, "%U", text_of(line).ptr()) != 0) nb::raise_python_error();
  }

 private:
  source_arguments arguments_;
  std::vector<std::string> notes_;
};

/// Returns name, dtype, shape, and memory that supports DLPack and the buffer protocol.
nb::tuple tuple_of(loaded_weight&& w) {
  const std::vector<size_t> shape(w.shape.begin(), w.shape.end());
  std::byte* const data = w.bytes.release();
  const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::byte*>(p); });
  const nb::ndarray<nb::array_api> array(data, shape.size(), shape.data(), owner, nullptr, dlpack_type(w.type));
  nb::list sizes;
  for (const auto n : w.shape) sizes.append(n);
  return nb::make_tuple(w.name, type_name(w.type), nb::tuple(sizes), array);
}

nb::tuple next_of(fp32_weights& weights) {
  auto next = interruptible([&](const storage::progress_function& goes_on) { return weights.next(goes_on); });
  if (!next) throw nb::stop_iteration();
  return tuple_of(std::move(*next));
}

std::unique_ptr<fp32_weights> to_fp32(const path& at, const std::optional<std::string>& tag,
                                      const std::optional<path>& map, bool fallback, bool exclude_frozen,
                                      const std::optional<path>& model_config) {
  const source from(at, tag, map, fallback);
  refuse_empty("model_config", model_config);
  auto out = interruptible([&](const storage::progress_function&) {
    weights_arguments a;
    a.source = from.arguments();
    a.exclude_frozen = exclude_frozen;
    a.model_config = model_config.value_or("").string();
    return fp32_weights::open(a);
  });
  from.warn();
  return out;
}

std::string inspect(const path& at, const std::optional<std::string>& tag, const std::optional<path>& map,
                    bool fallback) {
  const source from(at, tag, map, fallback);
  auto text = interruptible([&](const storage::progress_function&) -> core::result<std::string> {
    auto stored = from.arguments();
    stored.as_stored = true;
    TROUPE_ASSIGN(const auto s, open_checkpoint_at(stored));
    return formats::inspect_json(s);
  });
  from.warn();
  return text;
}

nb::tuple verify(const path& at, const std::optional<std::string>& tag, const std::optional<path>& map, bool fallback) {
  const source from(at, tag, map, fallback);
  const auto r = interruptible([&](const storage::progress_function& goes_on) -> core::result<formats::verify_report> {
    auto stored = from.arguments();
    stored.as_stored = true;
    TROUPE_ASSIGN(const auto s, open_checkpoint_at(stored));
    return formats::verify_source(storage::real_files(), s, goes_on);
  });
  from.warn();
  nb::list listed;
  for (const auto& d : r.listed)
    listed.append(nb::make_tuple(text_of(d.file), text_of(d.tensor), d.offset_bytes, text_of(d.text)));
  return nb::make_tuple(r.tensors, r.pieces, r.bytes, r.compared_bytes, r.damages, listed);
}

const char* name_of(formats::difference_kind k) {
  using enum formats::difference_kind;
  switch (k) {
    case only_in_first:
      return "only_in_first";
    case only_in_second:
      return "only_in_second";
    case type:
      return "type";
    case shape:
      return "shape";
    case content:
      return "content";
  }
  return "content";
}

nb::tuple diff(const path& first, const path& second, const nb::object& tolerance,
               const std::optional<std::string>& tag, const std::optional<path>& map, bool fallback) {
  const source from(first, tag, map, fallback, how_many::two);
  refuse_empty("second", second);
  const auto within = number_in("tolerance", tolerance);
  const auto compared = interruptible([&](const storage::progress_function& goes_on) {
    diff_arguments a{.first = from.arguments(), .second = second.string(), .tolerance = within};
    a.first.progress = goes_on;
    return compare_checkpoints(a);
  });
  from.warn();
  const auto& r = compared.report;
  nb::list differences;
  for (const auto& d : r.differences)
    differences.append(
        nb::make_tuple(text_of(d.tensor), name_of(d.kind), d.element, d.elements, d.largest, text_of(d.text)));
  return nb::make_tuple(r.tensors, r.bytes, differences, r.left_out_moments, r.left_out_weights);
}

void convert_checkpoint(const path& at, const path& out, const std::string& to, const std::optional<std::string>& tag,
                        const std::optional<path>& map, bool fallback, bool force, const nb::dict& options) {
  const source from(at, tag, map, fallback);
  refuse_empty("out", out);
  convert(from.arguments(), {.out = out.string(), .force = force}, to, options);
  from.warn();
}

/// Refuses training without the torch that this wheel was built for in the folder of packages that has the wheel.
void check_torch_beside(const path& packages, const std::string& who) { value_or_throw(check_torch(packages, who)); }

}  // namespace
}  // namespace troupe::apps

NB_MODULE(_native, m) {
  using namespace troupe::apps;
  m.attr("__version__") = TROUPE_VERSION;
  add_error(m);
  nb::class_<fp32_weights>(m, "Weights")
      .def("__iter__", [](nb::handle self) { return self; })
      .def("__length_hint__", &fp32_weights::left)
      .def("__next__", next_of);
  m.def("check_torch", check_torch_beside, "packages"_a, "who"_a);
  const auto none = nb::none();
  m.def("to_fp32", to_fp32, "path"_a, "tag"_a = none, "map"_a = none, "fallback_to_previous"_a = false,
        "exclude_frozen"_a = false, "model_config"_a = none);
  m.def("inspect", inspect, "path"_a, "tag"_a = none, "map"_a = none, "fallback_to_previous"_a = false);
  m.def("verify", verify, "path"_a, "tag"_a = none, "map"_a = none, "fallback_to_previous"_a = false);
  m.def("diff", diff, "first"_a, "second"_a, "tolerance"_a = none, "tag"_a = none, "map"_a = none,
        "fallback_to_previous"_a = false);
  m.def("convert", convert_checkpoint, "path"_a, "out"_a, "to"_a, "tag"_a = none, "map"_a = none,
        "fallback_to_previous"_a = false, "force"_a = false, "options"_a = nb::dict());
}
