// Tests every key of the optimizer, the scheduler, the data and telemetry with values of a wrong type and out of range:
// each is refused with its position and name. Combinations of keys are tested in refusals_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "config/keys/key_table.hpp"
#include "config/keys/values.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(wrong_values)

using namespace troupe::config;

namespace {

bool is_walked(const key_info& row) {
  static const std::set<std::string_view> sections = {"optimizer",
                                                      "optimizer.params",
                                                      "scheduler",
                                                      "scheduler.params",
                                                      "data",
                                                      "data.sources[]",
                                                      "telemetry",
                                                      "tensorboard",
                                                      "csv_monitor",
                                                      "comms_logger",
                                                      "flops_profiler",
                                                      "parameter_groups[]",
                                                      "sample",
                                                      "evaluation",
                                                      "activation_checkpointing",
                                                      "checkpoint",
                                                      "checkpoint.load",
                                                      "aio",
                                                      "cluster",
                                                      "pipeline",
                                                      "checkpoint.memory",
                                                      "cluster.restarts",
                                                      "mlflow",
                                                      "wandb"};
  const bool alone = row.key == "wall_clock_breakdown" || row.key == "memory_breakdown";
  return row.support.acts == effect::acts && row.support.refusal.empty() && row.type != value_type::section && row.type != value_type::object &&
         (alone || sections.contains(row.section()));
}

/// Returns a file in which the key is alone on its line, together with all keys that it requires.
std::string file_with(const key_info& row, const std::string& value) {
  const auto within = [&](const std::string& section, const std::string& rest, const std::string& indent) {
    return fmt::format("{}:\n{}{}{}: {}\n", section, rest, indent, row.name(), value);
  };
  std::string base = smallest;
  const auto without = [&](const std::string& name) {
    const size_t at = base.find(fmt::format("{}:", name));
    base.erase(at, base.find('\n', at) + 1 - at);
  };
  if (row.section().empty()) return base + fmt::format("{}: {}\n", row.name(), value);
  if (row.section().starts_with("optimizer")) without("optimizer");
  if (row.section().starts_with("data")) without("data");
  if (row.in_list()) {
    const bool needs = !row.required;
    const std::string first = row.list_name() == "data.sources" ? "text: a" : "match: a";
    const std::string item = needs ? fmt::format("    - {}\n      {}: {}\n", first, row.name(), value)
                                   : fmt::format("    - {}: {}\n", row.name(), value);
    return fmt::format("{}{}{}", base,
                       row.list_name() == "data.sources" ? "data:\n  sources:\n" : "parameter_groups:\n", item);
  }
  if (row.section().ends_with(".params")) {
    const std::string type = row.types.readers.empty() ? "adamw" : std::string(row.types.readers[0]);
    return base +
           within(fmt::format("{}:\n  type: {}\n  params", row.section().substr(0, row.section().find('.')), type), "",
                  "    ");
  }
  for (const char* section : {"checkpoint.load", "checkpoint.memory", "cluster.restarts"})
    if (const std::string full = section; row.section() == full)
      return base + within(full.substr(0, full.find('.')) + ":\n  " + full.substr(full.find('.') + 1), "", "    ");
  return base +
         within(std::string(row.section()), row.section() == "data" && row.name() != "text" ? "  text: a\n" : "", "  ");
}

/// Returns values that no key of the type accepts.
std::vector<std::string> of_wrong_type(const key_info& row) {
  std::vector<std::string> all = {"{a: 1}", "[[1]]"};
  switch (row.type) {
    case value_type::boolean:
      all.insert(all.end(), {"1", "\"true\"", "maybe", "[true]"});
      break;
    case value_type::integer:
      all.insert(all.end(), {"1.5", "\"1\"", "true", "many", ".inf"});
      break;
    case value_type::number:
    case value_type::number_list:
      all.insert(all.end(), {"\"1\"", "true", "much", ".nan"});
      break;
    case value_type::text:
    case value_type::path:
      all.insert(all.end(), {"true", "[a, b]"});
      break;
    case value_type::texts:
      all.insert(all.end(), {"[a, true]", "false"});
      break;
    default:
      break;
  }
  if (!row.choices.names.empty() && row.type != value_type::number_list) all.push_back("of_another_kind");
  return all;
}

/// Returns numbers below and above the key's range.
std::vector<std::string> out_of_range(const key_info& row) {
  std::vector<std::string> all;
  const auto add = [&](double v) {
    const std::string text = fmt::format("{}", v);
    all.push_back(row.type == value_type::number_list ? fmt::format("[0.5, {}]", text) : text);
  };
  if (row.range.least) {
    add(*row.range.least - 1);
    if (row.range.above_least) add(*row.range.least);
  }
  if (row.range.most) {
    add(*row.range.most + 1);
    if (row.range.below_most) add(*row.range.most);
  }
  return all;
}

/// Returns the position (line and column) of the key's value, which is on the last line that is not blank.
std::string place_of_value(const std::string& text, const key_info& row) {
  const auto lines = std::ranges::count(text, '\n');
  const size_t last = text.rfind('\n', text.size() - 2) + 1;
  const size_t name = text.find(fmt::format("{}: ", row.name()), last);
  return fmt::format("j.yaml:{}:{}: error: ", lines, name - last + row.name().size() + 3);
}

void is_refused(const key_info& row, const std::string& value) {
  const std::string text = file_with(row, value);
  const std::string errors = errors_of(text);
  std::string key = row.key;
  if (row.in_list()) key.insert(key.find("[]") + 1, "0");
  BOOST_TEST(errors.find(fmt::format("{}{}: ", place_of_value(text, row), key)) != std::string::npos, text << errors);
  BOOST_TEST(errors.find(value.substr(0, 20)) != std::string::npos, errors);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_value_of_a_wrong_type_is_refused_with_key_and_place) {
  size_t walked = 0;
  for (const key_info& row : key_table()) {
    if (!is_walked(row)) continue;
    ++walked;
    for (const std::string& value : of_wrong_type(row)) is_refused(row, value);
  }
  BOOST_TEST(walked > 90U);
}

BOOST_AUTO_TEST_CASE(a_value_outside_its_range_is_refused_with_key_and_place) {
  size_t tried = 0;
  for (const key_info& row : key_table())
    if (is_walked(row))
      for (const std::string& value : out_of_range(row)) {
        ++tried;
        is_refused(row, value);
      }
  BOOST_TEST(tried > 60U);
}

BOOST_AUTO_TEST_CASE(a_number_of_another_type_is_refused_with_key_and_place) {
  for (const key_info& row : key_table()) {
    if (!is_walked(row) || row.types.readers.empty() || !row.has_field()) continue;
    const bool curve = row.section() == "scheduler.params";
    for (const std::string_view type : key_named(curve ? "scheduler.type" : "optimizer.type")->choices.names) {
      if (row.read_by(type) || type == "muon") continue;
      const std::string value = row.type == value_type::boolean       ? "true"
                                : row.type == value_type::number_list ? "[0.5, 0.5]"
                                : !row.choices.names.empty()          ? std::string(row.choices.names[0])
                                                                      : "1";
      if (row.range.below_most && value == "1") continue;
      std::string text = file_with(row, value);
      const std::string mine = fmt::format("type: {}", row.types.readers[0]);
      text.replace(text.rfind(mine), mine.size(), fmt::format("type: {}", type));
      const auto lines = std::ranges::count(text, '\n');
      const std::string errors = errors_of(text);
      BOOST_TEST(errors.find(fmt::format("j.yaml:{}:5: error: {}: a key of ", lines, row.key)) != std::string::npos,
                 text << errors);
      BOOST_TEST(
          errors.find(fmt::format("; the most similar key of {} is {}.", type, row.section())) != std::string::npos,
          errors);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
