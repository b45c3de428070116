#include "tests/survive/job_of_processes.hpp"

#include <fmt/format.h>

#include <regex>
#include <sstream>

namespace troupe::tests {
namespace {

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> out;
  size_t at = 0;
  for (size_t next = 0; (next = text.find(by, at)) != std::string::npos; at = next + by.size())
    out.push_back(text.substr(at, next - at));
  out.push_back(text.substr(at));
  return out;
}

}  // namespace

std::optional<told_terms> terms_told(const std::string& out) {
  std::optional<told_terms> found;
  std::istringstream lines(out);
  const std::regex form(
      "([0-9]+(?: -> [0-9]+)*) (?:data )?ranks?(?: of [0-9]+ ranks)? at steps? ([0-9, ]+); (?:at least )?[0-9]+ steps? done again.*");
  for (std::string line; std::getline(lines, line);) {
    std::smatch m;
    const auto begin = line.find_first_of("0123456789");
    const std::string rest = begin == std::string::npos ? std::string() : line.substr(begin);
    if (!std::regex_match(rest, m, form)) continue;
    const auto ranks = split(m[1], " -> "), steps = split(m[2], ", ");
    told_terms x;
    for (size_t i = 0; i < ranks.size() && i < steps.size(); ++i)
      x.degrees += (i == 0 ? "" : ",") + ranks[i] + "@" + steps[i];
    x.line = rest.substr(0, rest.find('"'));  // the line may be part of a JSON string and then ends at the quote
    found = x;
  }
  return found;
}

std::optional<std::string> first_difference(const recorded_steps& wanted, const recorded_steps& got) {
  for (const auto& [step, values] : wanted) {
    const auto at = got.find(step);
    if (at == got.end()) return fmt::format("step {} is missing", step);
    if (at->second != values)
      return fmt::format("step {}: wanted loss {} and norm {}, got {} and {}", step, values.first, values.second,
                         at->second.first, at->second.second);
  }
  if (got.size() != wanted.size()) return fmt::format("wanted {} steps, got {}", wanted.size(), got.size());
  return std::nullopt;
}

}  // namespace troupe::tests
