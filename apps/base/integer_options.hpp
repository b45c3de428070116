// Refuses, with a sentence, integers on the command line that CLI11 would wrap or truncate, and numbers that are not
// finite. Leaves ranges to each option.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>

namespace troupe::apps {

/// Returns why `text` is not an unsigned 64-bit integer; empty if it is one, also if a unit follows.
inline std::string wrong_integer(std::string_view text) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc()) return {};
  const std::string got(text.substr(0, 80));
  if (failure == std::errc::result_out_of_range) return "wanted an integer of at most 18446744073709551615, got " + got;
  return "wanted an integer of at least 0, got " + (got.empty() ? "nothing" : got);
}

/// Returns why `text` is not a finite number; empty if it is finite, or if this function cannot tell.
inline std::string wrong_number(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_endless = failure == std::errc() && !std::isfinite(value);
  std::string out;
  if (is_endless) out.append("wanted a finite number, got ").append(text.substr(0, 80));
  return out;
}

/// Makes every option of `app` and of its commands refuse bad numbers: options for unsigned integers refuse other
/// texts, options for other numbers refuse values that are not finite.
inline void refuse_wrong_integers(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_type_name().starts_with("UINT"))
      // The check runs before the other validators of the option, which may convert units.
      option->transform(CLI::Validator([](std::string& text) { return wrong_integer(text); }, ""));
    else if (option->get_type_name().starts_with("FLOAT"))
      option->transform(CLI::Validator([](std::string& text) { return wrong_number(text); }, ""));
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) refuse_wrong_integers(*command);
}

}  // namespace troupe::apps
