// Numbers on the command line: integers that CLI11 would wrap around or cut off and numbers that are not finite are
// refused in words. Owns nothing of what a number means; ranges stand beside each option.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>

namespace troupe::apps {

/// Why a text is no integer that 64 bits without a sign can hold; empty: it is one, perhaps with a unit behind it.
inline std::string wrong_integer(std::string_view text) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc()) return {};
  const std::string got(text.substr(0, 80));
  if (failure == std::errc::result_out_of_range) return "wanted an integer of at most 18446744073709551615, got " + got;
  return "wanted an integer of at least 0, got " + (got.empty() ? "nothing" : got);
}

/// Why a text is no finite number; empty: it is one, or none that this can tell.
inline std::string wrong_number(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_endless = failure == std::errc() && !std::isfinite(value);
  std::string out;
  if (is_endless) out.append("wanted a finite number, got ").append(text.substr(0, 80));
  return out;
}

/// Has every option of `app` and of its commands that takes integers without a sign refuse what is none, and every one
/// that takes other numbers what is not finite.
inline void refuse_wrong_integers(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_type_name().starts_with("UINT"))
      option->transform(CLI::Validator([](std::string& text) { return wrong_integer(text); }, ""));  // before units
    else if (option->get_type_name().starts_with("FLOAT"))
      option->transform(CLI::Validator([](std::string& text) { return wrong_number(text); }, ""));
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) refuse_wrong_integers(*command);
}

}  // namespace troupe::apps
