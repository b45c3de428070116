// Compares the table of keys with DeepSpeed's own configuration classes; tests/peer/dump_deepspeed_config.py writes the
// fixture.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "config/keys/key_table.hpp"
#include "config/keys/values.hpp"
#include "config/rules/settings.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(deepspeed_table)

using namespace troupe::config;

namespace {

nlohmann::json dump() {
  std::ifstream in(std::string(troupe::places::source_dir) + "/tests/config/fixtures/deepspeed_config.json");
  BOOST_TEST_REQUIRE(in.good());
  return nlohmann::json::parse(in);
}

/// Keys whose default differs from DeepSpeed's, with the reason.
const std::map<std::string, std::string> other_default = {
    {"zero_optimization.overlap_comm", "none there means true exactly at stage 3, here what is never slower"},
    {"zero_optimization.cpu_offload", "none there says the same as false"},
    {"zero_optimization.cpu_offload_param", "none there says the same as false"},
    {"zero_optimization.cpu_offload_use_pin_memory", "none there says the same as false"},
    {"zero_optimization.leaf_module.classes", "Python classes, of which there are none here"},
    {"tensor_parallel.dtype", "torch.float16 there is fp16"},
    {"expert_parallel.load_balance_coeff", "a marker object there, which stands for nothing"},
    {"expert_parallel.expert_w3", "a marker object there, which stands for nothing"},
};

using words = std::vector<std::string>;

/// Values that only Troupe or only DeepSpeed accepts, by key, with the reason.
struct difference {
  words keys, values;
  std::string why;
};

words operator+(words a, const words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const words numbers = {"-2", "-1", "0", "1", "2", "1000000000", "-0.5", "0.0", "0.5", "1.0", "1.5"};
const words flags = {"false", "true"}, texts = {"\"\"", "\"2\"", "\"some text\""};
const words below_0 = {"-2", "-1"}, below_1 = {"-2", "-1", "0", "0.0", "false"};

const difference differences[] = {
    {{"zero_optimization.reduce_bucket_size"}, {"0", "0.0", "false"}, "versions before took 0: one parameter each"},
    {{"comet.api_key", "comet.experiment_key", "comet.experiment_name", "comet.project", "comet.workspace",
      "csv_monitor.job_name", "tensorboard.job_name", "wandb.group", "wandb.project", "wandb.team"},
     numbers,
     "a text in YAML needs no quotes"},
    {{"csv_monitor.output_path", "tensorboard.output_path"}, numbers, "their paths are texts, ours are names"},
    {{"zero_optimization.offload_optimizer.nvme_path", "zero_optimization.offload_param.nvme_path"},
     numbers + words{"\"\""},
     "likewise; an empty one is the current folder there, by accident"},
    {{"comms_logger.prof_ops"},
     {"[\"text\"]", "[1]"},
     "names of no operation, which would log nothing; their class takes any list"},
    {{"tensor_parallel.injection_policy_tuple"}, numbers + texts, "one text stands for a list with it"},
    {{"zero_optimization.leaf_module.classes", "zero_optimization.leaf_module.name_suffixes",
      "zero_optimization.leaf_module.names"},
     numbers + words{"[1]"},
     "likewise"},
    {{"comet.mode", "tensor_parallel.preset_model", "zero_optimization.zenflow.select_strategy"},
     texts,
     "their classes take any text and fail later"},
    {{"zero_optimization.zenflow.select_interval", "zero_optimization.zenflow.update_interval"},
     below_1 + words{"\"\"", "\"some text\""},
     "any text but auto, and any number below 1, fails later there"},
    {{"comet.samples_log_interval", "fp16.hysteresis", "hybrid_engine.inference_tp_size",
      "hybrid_engine.tp_gather_partition_size", "tensor_parallel.tensor_parallel.tp_grain_size",
      "weight_quantization.q_groups", "zero_optimization.zenflow.steps_per_epoch"},
     below_1,
     "counts of which less than one means nothing; their classes have no bound"},
    {{"compile.free_activation_threshold", "zero_optimization.zenflow.full_warm_up_rounds"},
     below_0,
     "sizes below 0, likewise"},
    {{"fp16.initial_scale_power"}, below_0 + words{"1000000000"}, "fp32 has no such power of two"},
    {{"weight_quantization.num_bits"}, below_1 + words{"1000000000"}, "no format has so many or so few bits"},
    {{"fp16.loss_scale_window"}, below_0 + flags, "their bound is in the engine; a flag is an integer in all sections"},
    {{"fp16.min_loss_scale"}, words{"-2", "-1", "0.5", "1.5"}, "their bound is in the engine; a scale is any number"},
    {{"zero_optimization.offload_optimizer.cpuadam_cores_perc", "zero_optimization.offload_optimizer.ratio",
      "zero_optimization.zenflow.auto_ratio", "zero_optimization.zenflow.pt_reserved_cores_perc"},
     flags,
     "a flag is no share"},
    {{"zero_optimization.offload_optimizer.buffer_count", "zero_optimization.offload_param.buffer_count"},
     {"1000000000"},
     "a named limit of ours"},
    {{"tensor_parallel.tensor_parallel.tp_size"}, below_1 + words{"1000000000"}, "both"},
    {{"tensor_parallel.autotp_size"}, below_0 + words{"1000000000"}, "both"},
    {{"weight_quantization.post_init_quant", "weight_quantization.quantized_initialization",
      "zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device"},
     {"null"},
     "nothing says the same as its default"},
};

/// Returns true if a DeepSpeed file may set the key to this value.
bool takes(const std::string& key, const std::string& value) {
  reporter report;
  report.sources.push_back({"ds.json", "/base", source::imported});
  std::string text = value, left = key;
  while (!left.empty()) {
    const size_t dot = left.rfind('.');
    text = "{\"" + left.substr(dot + 1) + "\": " + text + "}";
    left.resize(dot == std::string::npos ? 0 : dot);
  }
  const document read = read_json(text, 0);
  BOOST_TEST_REQUIRE(read.root != nullptr, text);
  collect(*read.root, report, purpose::deepspeed);
  return !report.failed();
}

bool is_listed(const std::string& key, const std::string& value) {
  const auto in = [](const words& all, const std::string& one) { return std::ranges::find(all, one) != all.end(); };
  return std::ranges::any_of(differences, [&](const difference& d) { return in(d.keys, key) && in(d.values, value); });
}

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

BOOST_AUTO_TEST_CASE(every_key_takes_the_values_that_deepspeeds_class_takes) {
  const auto all = dump();
  size_t compared = 0;
  for (const auto& [key, there] : all["keys"].items()) {
    if (!there.contains("takes")) continue;
    std::set<std::string> theirs, tried;
    for (const auto& value : there["takes"]) theirs.insert(value.dump());
    for (const auto& value : all["tried"]) tried.insert(value.dump());
    tried.insert(theirs.begin(), theirs.end());
    for (const std::string& value : tried) {
      ++compared;
      const bool here = takes(key, value), listed = is_listed(key, value);
      BOOST_TEST((here == theirs.contains(value)) != listed,
                 key << ": " << value << (here ? " is taken here, " : " is refused here, ")
                     << (theirs.contains(value) ? "taken there" : "refused there"));
    }
  }
  BOOST_TEST(compared > 2500U);
}

BOOST_AUTO_TEST_CASE(keys_that_deepspeed_has_dropped_are_still_known) {
  const auto all = dump();
  for (const auto& key : all["removed"]) BOOST_TEST((row_of(key.get<std::string>()) != nullptr), key);
}

BOOST_AUTO_TEST_CASE(the_listed_differences_are_of_existing_keys) {
  const auto all = dump();
  for (const auto& [key, why] : other_default) BOOST_TEST(all["keys"].contains(key), key << ": " << why);
  for (const difference& d : differences)
    for (const std::string& key : d.keys) BOOST_TEST(all["keys"].contains(key), key << ": " << d.why);
}

BOOST_AUTO_TEST_SUITE_END()
