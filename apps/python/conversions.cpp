#include "apps/python/conversions.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "apps/checkpoint/written_formats.hpp"
#include "apps/python/interruptible.hpp"
#include "apps/python/keywords.hpp"
#include "apps/python/python_error.hpp"

namespace troupe::apps {
namespace {

constexpr std::string_view text = "text", truth = "True or False";

/// Returns the words for the values of an option in messages.
std::string_view wanted_for(const option_target& into) {
  constexpr std::array<std::string_view, std::variant_size_v<option_target>> words{
      text, truth, "a whole number", "a number", "a list of whole numbers", "a list of texts"};
  return words.at(into.index());
}

/// Returns Python's keyword for an option of the command line: max_shard_size for --max-shard-size.
std::string keyword_for(std::string option) {
  option.erase(0, option.find_first_not_of('-'));
  std::ranges::replace(option, '-', '_');
  return option;
}

/// Reads an option that not all conversions have.
void take(keywords& k, const conversion_option& o) {
  const auto name = keyword_for(o.name);
  std::visit([&](auto* into) { k.take(name.c_str(), *into, wanted_for(o.into)); }, o.into);
  if (!o.needs.empty()) k.needs(name, keyword_for(o.needs));
}

/// Returns the names of all conversions: "fp32, hf or reshape".
std::string all_names() {
  std::string out;
  for (const auto* format : all_written)
    out.append(out.empty() ? "" : format == all_written.back() ? " or " : ", ").append(format->name());
  return out;
}

}  // namespace

void convert(const source_arguments& source, const output_arguments& output, const std::string& to,
             const nanobind::dict& options) {
  const auto format = std::ranges::find(all_written, to, &written_format::name);
  if (format == all_written.end())
    throw python_error(
        {core::error_kind::bad_input, fmt::format("convert(to=...): wanted {}, got '{}'", all_names(), to)});
  keywords k("convert(to='" + to + "')", options);
  const auto request = (*format)->begin();
  auto& a = request->arguments();
  a.source = source;
  a.output = output;
  for (const auto& o : request->options())
    if (!o.is_shared) take(k, o);
  k.take("allow_overflow", a.source.allow_overflow, truth);
  k.take("ignore_keys", a.source.ignored_keys, "a list of texts");
  k.end();
  // The conversion refuses options without effect.
  a.given = k.options();
  interruptible([&](const storage::progress_function& goes_on) {
    a.source.progress = goes_on;
    return request->write();
  });
}

}  // namespace troupe::apps
