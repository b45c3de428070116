// The table against what DeepSpeed's own classes say (tests/peer/dump_deepspeed_config.py writes the fixture).
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "config/key_table.hpp"
#include "config/values.hpp"

using namespace troupe::config;

namespace {

nlohmann::json dump() {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/tests/config/fixtures/deepspeed_config.json");
  BOOST_TEST_REQUIRE(in.good());
  return nlohmann::json::parse(in);
}

/// Defaults that differ, and why.
const std::map<std::string, std::string> other_default = {
    {"zero_optimization.overlap_comm", "none there means what the table writes: true exactly at stage 3"},
    {"zero_optimization.cpu_offload", "none there says the same as false"},
    {"zero_optimization.cpu_offload_param", "none there says the same as false"},
    {"zero_optimization.cpu_offload_use_pin_memory", "none there says the same as false"},
    {"zero_optimization.leaf_module.classes", "Python classes, of which there are none here"},
    {"tensor_parallel.dtype", "torch.float16 there is fp16"},
    {"expert_parallel.load_balance_coeff", "a marker object there, which stands for nothing"},
    {"expert_parallel.expert_w3", "a marker object there, which stands for nothing"},
};

const key_info* row_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? key_in("", key) : key_in(key.substr(0, dot), key.substr(dot + 1));
}

bool same(const key_info& row, const nlohmann::json& there) {
  if (there.is_null()) return row.default_text == "none";
  if (there.is_object()) return row.default_text == "none" && there.empty();
  if (there.is_array()) return row.default_text == there.dump();
  if (there.is_string()) {
    const std::string text = there.get<std::string>();
    return is_default(row, *checked(row, make_scalar(node_kind::quoted, text, {}))) || row.default_text == text;
  }
  return is_default(row, *make_scalar(node_kind::plain, there.dump(), {}));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(deepspeed_table)

BOOST_AUTO_TEST_CASE(every_key_of_deepspeed_is_known_with_its_default_and_aliases) {
  const auto all = dump();
  BOOST_TEST(all["keys"].size() > 250U);
  for (const auto& [key, there] : all["keys"].items()) {
    const key_info* row = row_of(key);
    BOOST_TEST_REQUIRE(row != nullptr, key);
    for (const auto& name : there.value("aliases", nlohmann::json::array()))
      BOOST_TEST((row_of(key.substr(0, key.rfind('.') + 1) + name.get<std::string>()) == row), key);
    if (there.contains("deprecated")) {
      const alias* used = nullptr;
      key_in(key.substr(0, key.rfind('.')), key.substr(key.rfind('.') + 1), &used);
      BOOST_TEST((!row->deprecation.empty() || (used != nullptr && used->deprecated)), key);
    }
    if (row->type == value_type::section || other_default.contains(key)) continue;
    const bool auto_on_both_sides = there["default"] == "auto" && row->default_text == "auto";
    BOOST_TEST((auto_on_both_sides || same(*row, there["default"])),
               key << ": here " << row->default_text << ", there " << there["default"].dump());
  }
}

BOOST_AUTO_TEST_CASE(what_deepspeed_has_dropped_is_still_known) {
  for (const auto& key : dump()["removed"]) BOOST_TEST((row_of(key.get<std::string>()) != nullptr), key);
}

BOOST_AUTO_TEST_CASE(the_listed_differences_are_of_keys_that_there_are) {
  const auto all = dump();
  for (const auto& [key, why] : other_default) BOOST_TEST(all["keys"].contains(key), key << ": " << why);
}

BOOST_AUTO_TEST_SUITE_END()
