// Tests that the table of keys is consistent, and that it agrees with job_config.
#include "config/keys/key_table.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "config/keys/values.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(key_table)

using namespace troupe::config;

BOOST_AUTO_TEST_CASE(every_key_is_unique_explained_and_in_a_section_of_the_table) {
  std::set<std::string> seen;
  for (const key_info& row : troupe::config::key_table()) {
    BOOST_TEST(seen.insert(row.key).second, row.key);
    for (const alias& a : row.aliases)
      BOOST_TEST(seen.insert(std::string(row.section()) + "." + std::string(a.name)).second, a.name);
    BOOST_TEST(!row.meaning.empty(), row.key);
    BOOST_TEST((row.support.acts != effect::no_effect || !row.support.reason.empty()), row.key);
    BOOST_TEST((row.support.acts != effect::when_there || !row.support.capability.empty()), row.key);
    const bool later_named = row.choices.later.empty() || !row.support.capability.empty();
    BOOST_TEST(later_named, row.key);
    if (row.section().empty()) continue;
    const key_info* around = key_named(row.section());
    BOOST_TEST_REQUIRE(around != nullptr, row.key);
    BOOST_TEST((around->type == value_type::section), row.key);
  }
}

BOOST_AUTO_TEST_CASE(every_switch_is_a_key_with_a_field) {
  for (const key_info& row : troupe::config::key_table()) {
    if (row.switched.key.empty()) continue;
    const key_info* by = key_named(row.switched.key);
    BOOST_TEST_REQUIRE(by != nullptr, row.key);
    BOOST_TEST((by->has_field() && !by->any_name()), row.key);
  }
}

BOOST_AUTO_TEST_CASE(every_key_that_acts_has_a_field_or_one_accepted_value) {
  for (const key_info& row : troupe::config::key_table()) {
    const bool is_value =
        row.type != value_type::section && row.support.acts == effect::acts && row.support.refusal.empty();
    // These keys are replaced while a file is read: one names another file, the others are spellings of other keys.
    const bool is_collected = row.key == "deepspeed_config" || row.key == "allgather_size" ||
                              row.key.starts_with("zero_optimization.cpu_offload");
    // Keys within groups have arbitrary names instead of fields; compression_rules.cpp reads them.
    if (row.key.starts_with("compression_training.") && row.key.find(".*") != std::string::npos) continue;
    if (is_value) BOOST_TEST((row.has_field() || !row.support.only.empty() || is_collected), row.key);
  }
}

BOOST_AUTO_TEST_CASE(every_default_in_the_table_is_the_default_of_its_field) {
  const job_config fresh;
  for (const key_info& row : troupe::config::key_table()) {
    if (!row.has_field() || std::holds_alternative<model_key>(row.target.field)) continue;
    if (row.default_text == "derived") continue;
    const std::string field = field_text(row, fresh);
    const node_ptr as_node = make_scalar(node_kind::plain, field, {});
    BOOST_TEST((field == row.default_text || field == quoted(row.default_text) || is_default(row, *as_node)),
               row.key << ": " << field << " and " << row.default_text);
  }
}

BOOST_AUTO_TEST_CASE(every_default_is_a_value_that_its_key_accepts) {
  for (const key_info& row : troupe::config::key_table()) {
    const bool is_literal = row.default_text != "none" && row.default_text != "derived" &&
                            row.type != value_type::number_list && row.default_text.find('(') == std::string::npos &&
                            row.default_text != "auto" && row.default_text[0] != '[' && row.type != value_type::section;
    if (!is_literal) continue;
    const node_ptr value =
        make_scalar(row.type == value_type::text ? node_kind::quoted : node_kind::plain, row.default_text, {});
    BOOST_TEST(checked(row, value) != nullptr, row.key);
    if (!row.support.only.empty()) BOOST_TEST(row.support.only.front() == row.default_text, row.key);
  }
}

// No compiler checks the names of keys in error messages: a message might name checkpoint.load.load_optimizer_states,
// which does not exist.
BOOST_AUTO_TEST_CASE(keys_that_messages_name_exist) {
  const std::regex text("\"((?:[^\"\\\\]|\\\\.)*)\"");
  const std::regex name(
      "(^|[^a-z_./-])((?:checkpoint|cluster|zero_optimization|evaluation|telemetry|on_spike|sample)"
      "(?:\\.[a-z_0-9]+)+)(?![a-z_0-9*])");
  const std::set<std::string> files{"hpp", "cpp", "json", "py", "yaml", "pt"};
  size_t named = 0;
  for (const char* folder : {"actors", "apps", "checkpoint", "config", "job", "plan"}) {
    BOOST_TEST_INFO_SCOPE(folder);
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(troupe::places::source_dir) / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        if (line.find('"') == std::string::npos || line.find("include") != std::string::npos) continue;
        for (std::sregex_iterator t(line.begin(), line.end(), text), end; t != end; ++t) {
          const std::string inside = (*t)[1];
          for (std::sregex_iterator n(inside.begin(), inside.end(), name); n != end; ++n) {
            const std::string key = (*n)[2];
            if (files.contains(key.substr(key.rfind('.') + 1)) || key.ends_with("_")) continue;
            ++named;
            BOOST_TEST((key_named(key) != nullptr), entry.path().string() + " names " + key);
          }
        }
      }
    }
  }
  BOOST_TEST(named > 50U);
}

BOOST_AUTO_TEST_CASE(the_nearest_key_is_one_of_the_same_section_where_it_can_be) {
  BOOST_TEST(nearest_key("zero_optimization", "stge") == "zero_optimization.stage");
  BOOST_TEST(nearest_key("zero_optimization", "prefetch_buket_size") == "zero_optimization.prefetch_bucket_size");
  BOOST_TEST(nearest_key("", "ouptut") == "output");
  BOOST_TEST(nearest_key("", "warmup_num_steps") == "scheduler.params.warmup_num_steps");
  BOOST_TEST(!nearest_key("", std::string(100'000, 'x')).empty());
}

BOOST_AUTO_TEST_SUITE_END()
