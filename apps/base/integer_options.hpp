// Reads the numbers of all options on the command line by the rules of configuration files: `010` is ten and `0x10` is
// refused, where CLI11 would read octal and hexadecimal digits, wrap or truncate. Leaves ranges to each option.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "config/document/scalars.hpp"
#include "core/number.hpp"

namespace troupe::apps {

/// Rewrites an unsigned 64-bit integer in any notation of configuration files (`010`, `5e8`) as plain digits, which may
/// be followed by a unit. Returns why `text` is not such an integer; empty if it is one.
inline std::string read_integer(std::string& text) {
  const auto refused = [&](const char* wanted) {
    const std::string got = text.substr(0, 80);
    return std::string("wanted an integer of at ")
        .append(wanted)
        .append(", got ")
        .append(got.empty() ? "nothing" : got);
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return c == ' ' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const std::string number(text.begin(), std::ranges::find_if_not(text, is_digit));
  const auto digits = core::number_of<uint64_t>(number);
  if (!digits && !number.empty()) return refused("most 18446744073709551615");
  const std::string unit = text.substr(number.size());
  if (const auto whole =
          config::integer_in({.kind = config::node_kind::plain, .at = {}, .text = text, .items = {}, .entries = {}})) {
    if (whole->negative) return refused("least 0");
    text = fmt::to_string(whole->magnitude);
    return {};
  }
  if (!digits || !std::ranges::all_of(unit, is_letter)) return refused("least 0");
  text = fmt::format("{}{}", *digits, unit);
  return {};
}

/// Returns why `text` is not a finite number as configuration files write it; empty if it is one.
inline std::string wrong_number(const std::string& text) {
  if (config::number_in({.kind = config::node_kind::plain, .at = {}, .text = text, .items = {}, .entries = {}}))
    return {};
  return "wanted a finite number, got " + (text.empty() ? "nothing" : text.substr(0, 80));
}

/// Returns the check of an option that takes a number above 0, or of at least 0 if `or_zero`.
inline CLI::Validator positive_number(bool or_zero) {
  const auto check = [or_zero](std::string& text) {
    const auto number =
        config::number_in({.kind = config::node_kind::plain, .at = {}, .text = text, .items = {}, .entries = {}});
    if (number && (*number > 0 || (or_zero && *number == 0))) return std::string();
    return std::string(or_zero ? "wanted a number of at least 0, got " : "wanted a number above 0, got ") +
           text.substr(0, 80);
  };
  return CLI::Validator(check, "");
}

/// Makes every numeric option of `app` and of its commands accept numbers as configuration files write them.
inline void read_numbers_as_files_do(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_type_name().starts_with("UINT"))
      // The check runs before the other validators of the option, which may convert units.
      option->transform(CLI::Validator([](std::string& text) { return read_integer(text); }, ""));
    else if (option->get_type_name().starts_with("FLOAT"))
      option->transform(CLI::Validator([](std::string& text) { return wrong_number(text); }, ""));
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) read_numbers_as_files_do(*command);
}

}  // namespace troupe::apps
