#include "apps/evaluate/choice_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "core/json_text.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

/// Deepest nesting of a question's line: a mapping with a list.
constexpr size_t max_question_depth = 8;
constexpr std::string_view blanks = " \t\n\v\f\r";

/// Parses a line; refuses a key that is given twice, which the parser would replace.
core::result<nlohmann::json> parsed_question(std::string_view line) {
  std::set<std::string> seen;
  std::string twice;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && !seen.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  auto out = core::parse_json(line, max_question_depth, watch);
  if (!out) return core::refused(std::move(out.error().why));
  if (!twice.empty()) return core::refused(fmt::format("the key '{}' is given twice", core::shown(twice)));
  return std::move(*out);
}

core::result<std::vector<std::string>> choices_of(const nlohmann::json& list) {
  if (!list.is_array() || list.size() < 2)
    return core::refused(
        fmt::format("choices: wanted a list of at least two texts, got {}", core::shown(list.dump().substr(0, 80))));
  std::vector<std::string> out;
  for (const auto& each : list) {
    if (!each.is_string() || each.get_ref<const std::string&>().empty())
      return core::refused(
          fmt::format("choices: wanted texts that are not empty, got {}", core::shown(each.dump().substr(0, 80))));
    out.push_back(each.get<std::string>());
  }
  return out;
}

}  // namespace

core::result<choice_question> question_of(std::string_view line) {
  TROUPE_ASSIGN(const auto json, parsed_question(line));
  if (!json.is_object()) return core::refused("wanted a mapping with context, choices and answer");
  for (const auto& [key, value] : json.items())
    if (key != "context" && key != "choices" && key != "answer")
      return core::refused(
          fmt::format("unknown key '{}': a question has the keys context, choices and answer", core::shown(key)));
  for (const char* key : {"context", "choices", "answer"})
    if (!json.contains(key)) return core::refused(fmt::format("{}: wanted a value, got nothing", key));
  choice_question out;
  if (!json["context"].is_string() ||
      json["context"].get_ref<const std::string&>().find_first_not_of(blanks) == std::string::npos)
    return core::refused("context: wanted a text before the choices, got none");
  out.context = json["context"].get<std::string>();
  TROUPE_ASSIGN(auto choices, choices_of(json["choices"]));
  out.choices = std::move(choices);
  const auto& answer = json["answer"];
  if (!answer.is_number_unsigned() || answer.get<uint64_t>() >= out.choices.size())
    return core::refused(fmt::format("answer: wanted the index of a choice, 0 to {}, got {}", out.choices.size() - 1,
                                     core::shown(answer.dump().substr(0, 80))));
  out.answer = answer.get<uint64_t>();
  return out;
}

core::result<std::vector<choice_question>> read_questions(const std::filesystem::path& file) {
  std::error_code e;
  if (std::filesystem::is_directory(file, e))
    return core::refused(fmt::format("'{}' is a folder, wanted a file of JSON lines", core::shown(file.string())));
  std::ifstream in(file, std::ios::binary);
  if (!in) return core::refused(fmt::format("cannot read '{}'", core::shown(file.string())));
  std::vector<choice_question> out;
  uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string place = fmt::format("'{}' line {}", core::shown(file.string()), number);
    if (line.size() > max_choice_line_bytes)
      return core::refused(fmt::format("{}: wanted at most {} bytes", place, max_choice_line_bytes));
    if (line.find_first_not_of(blanks) == std::string::npos) continue;
    auto question = question_of(line);
    if (!question) return fail(question.error().in(place));
    question->line = number;
    out.push_back(std::move(*question));
  }
  if (in.bad()) return fail(error_kind::io, fmt::format("cannot read '{}'", core::shown(file.string())));
  if (out.empty()) return core::refused(fmt::format("'{}' has no question", core::shown(file.string())));
  return out;
}

choice_text text_of(const choice_question& question, uint64_t choice) {
  const size_t end = question.context.find_last_not_of(blanks) + 1;
  return {question.context.substr(0, end), question.context.substr(end) + " " + question.choices[choice]};
}

}  // namespace troupe::apps
