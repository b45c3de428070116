#include "telemetry/curves/mlflow_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::telemetry {
namespace {

// Values of `status` in a run's meta.yaml: mlflow.entities.RunStatus.
constexpr int status_running = 1, status_finished = 3, status_failed = 4, status_killed = 5;
constexpr int source_local = 4;  // value of `source_type`: mlflow.entities.SourceType.LOCAL

// Returns a text as YAML on one line, in the form that PyYAML gives it: plain if nothing else can be read from it.
std::string yaml_text(std::string_view text) {
  constexpr std::array<std::string_view, 11> words = {"y",  "n",   "yes", "no",   "true", "false",
                                                      "on", "off", "nan", "null", "inf"};
  const auto is_plain_sign = [](char c) {
    return core::is_ascii_word(c) || std::string_view("_-./:%+ ").find(c) != std::string_view::npos;
  };
  const bool begins =
      !text.empty() &&
      (text.front() == '/' || (core::ascii_lower(text.front()) >= 'a' && core::ascii_lower(text.front()) <= 'z'));
  const bool ends = !text.empty() && text.back() != ':' && text.back() != ' ';
  if (begins && ends && text.find(": ") == std::string_view::npos && std::ranges::all_of(text, is_plain_sign) &&
      std::ranges::find(words, core::lowered(text)) == words.end())
    return std::string(text);
  const bool is_one_line = std::ranges::none_of(text, core::is_ascii_control) && core::is_utf8(text);
  return is_one_line ? core::yaml_quoted(text) : core::json_string(text);
}

// Returns the text of a YAML scalar that is plain or in single quotes, with its line breaks joined; nullopt for one in
// double quotes with escapes, which PyYAML writes for texts that no experiment of Troupe has.
std::optional<std::string> text_of_yaml(std::string_view scalar) {
  if (scalar.empty() || scalar.front() != '\'') {
    const bool is_quoted = scalar.size() >= 2 && scalar.front() == '"' && scalar.back() == '"';
    if (!is_quoted) return std::string(scalar);
    const auto inner = scalar.substr(1, scalar.size() - 2);
    if (inner.find('\\') != std::string_view::npos) return std::nullopt;
    return std::string(inner);
  }
  if (scalar.size() < 2 || scalar.back() != '\'') return std::nullopt;
  std::string out;
  for (auto rest = scalar.substr(1, scalar.size() - 2); !rest.empty(); rest.remove_prefix(1)) {
    out += rest.front();
    if (rest.starts_with("''")) rest.remove_prefix(1);
  }
  return out;
}

// Returns the address of an absolute path, `file:///runs/a%20b`.
std::string file_address(const std::filesystem::path& path) {
  constexpr std::string_view kept = "_.-~/";
  std::string out = "file://";
  for (const char c : path.string())
    if (core::is_ascii_word(c) || kept.find(c) != std::string_view::npos)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return out;
}

struct line_place {
  size_t begin = std::string_view::npos;  // first byte of the value; npos: there is no such line
  size_t end = 0;                         // place of the line end behind the value
};

line_place line_of(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':') {
      const size_t value = line.find_first_not_of(' ', key.size() + 1);
      return {value == line.npos ? end : at + value, end};
    }
    at = end + 1;
  }
  return {};
}

std::string with_value(std::string_view text, std::string_view key, std::string_view value) {
  const auto place = line_of(text, key);
  if (place.begin == std::string_view::npos) return fmt::format("{}{}: {}\n", text, key, value);
  return fmt::format("{}{}{}", text.substr(0, place.begin), value, text.substr(place.end));
}

int status_of(verdict how) {
  return how == verdict::done ? status_finished : how == verdict::failed ? status_failed : status_killed;
}

}  // namespace

std::string mlflow_experiment_text(std::string_view id, std::string_view name, const std::filesystem::path& folder,
                                   int64_t unix_ms) {
  return fmt::format(
      "artifact_location: {}\ncreation_time: {}\nexperiment_id: {}\nlast_update_time: {}\nlifecycle_stage: active\n"
      "name: {}\n",
      yaml_text(file_address(folder)), unix_ms, core::yaml_quoted(id), unix_ms, yaml_text(name));
}

std::optional<std::string> mlflow_experiment_name(std::string_view text) {
  const auto place = line_of(text, "name");
  if (place.begin == std::string_view::npos) return std::nullopt;
  std::string scalar(text.substr(place.begin, place.end - place.begin));
  // PyYAML breaks a long text between words and indents the next line.
  for (size_t at = place.end + 1; at < text.size() && text[at] == ' ';) {
    const size_t end = std::min(text.find('\n', at), text.size());
    scalar += ' ';
    scalar += core::trimmed(text.substr(at, end - at));
    at = end + 1;
  }
  return text_of_yaml(scalar);
}

std::string mlflow_run_text(const mlflow_facts& run) {
  return fmt::format(
      "artifact_uri: {}\nend_time: null\nentry_point_name: ''\nexperiment_id: {}\nlifecycle_stage: active\n"
      "run_id: {}\nrun_name: {}\nrun_uuid: {}\nsource_name: ''\nsource_type: {}\nsource_version: ''\nstart_time: {}\n"
      "status: {}\ntags: []\nuser_id: {}\n",
      yaml_text(file_address(run.folder / "artifacts")), core::yaml_quoted(run.experiment_id),
      core::yaml_quoted(run.id), yaml_text(run.name), core::yaml_quoted(run.id), source_local, run.begin_ms,
      status_running, yaml_text(run.user));
}

std::string mlflow_resumed_text(std::string_view text) {
  return with_value(with_value(text, "end_time", "null"), "status", fmt::to_string(status_running));
}

std::string mlflow_ended_text(std::string_view text, verdict how, int64_t unix_ms) {
  return with_value(with_value(text, "end_time", fmt::to_string(unix_ms)), "status", fmt::to_string(status_of(how)));
}

std::string_view mlflow_value(std::string_view text, std::string_view key) {
  const auto place = line_of(text, key);
  return place.begin == std::string_view::npos ? std::string_view() : text.substr(place.begin, place.end - place.begin);
}

std::string mlflow_row(int64_t unix_ms, double value, uint64_t step) {
  return fmt::format("{} {} {}\n", unix_ms, core::number_text(value), step);
}

std::optional<uint64_t> mlflow_place(std::string_view row) {
  const size_t last = row.rfind(' ');
  return last == std::string_view::npos ? std::nullopt : core::number_of<uint64_t>(row.substr(last + 1));
}

std::string mlflow_parameter(std::string_view yaml) {
  const bool is_quoted = yaml.size() >= 2 && yaml.front() == '"' && yaml.back() == '"';
  if (!is_quoted) return valid_utf8(yaml);
  const auto inner = yaml.substr(1, yaml.size() - 2);
  return valid_utf8(inner.find_first_of("\"\\") == std::string_view::npos ? inner : yaml);
}

bool is_mlflow_name(std::string_view name) {
  static constexpr std::string_view signs = "_-./";
  if (name.empty() || name.front() == '.' || name.front() == '/' || name.back() == '/') return false;
  if (name.find("//") != std::string_view::npos || name.find("/.") != std::string_view::npos) return false;
  return std::ranges::all_of(name,
                             [](char c) { return core::is_ascii_word(c) || signs.find(c) != std::string_view::npos; });
}

}  // namespace troupe::telemetry
