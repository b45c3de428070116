// What a loaded configuration says of itself, and that it can be loaded again.
#include "config/explain.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "config/values.hpp"
#include "tests/config/text.hpp"

using namespace troupe::config;

namespace {

loaded must_load(const std::string& text, const std::string& folder = "/base", const load_options& options = {}) {
  auto l = load_text(text, "j.yaml", folder, options);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error()) + text));
  return std::move(*l);
}

/// Every field that the table knows, one a line, and the model.
std::string all_fields(const job_config& c) {
  std::string out = c.model.hugging_face_json + "\n";
  for (const key_info& row : key_table()) {
    const key_info* list = row.in_list() ? key_named(row.section()) : nullptr;
    for (size_t i = 0; i < (list == nullptr ? 1 : list->items(c)); ++i)
      if (row.has_field()) out += row.key + " = " + field_text(row, c, i) + "\n";
  }
  return out;
}

void round_trips(const std::string& text) {
  const loaded first = must_load(text);
  const std::string yaml = effective_yaml(first);
  const loaded second = must_load(yaml, "/elsewhere");
  BOOST_TEST(all_fields(second.config) == all_fields(first.config));
  BOOST_TEST(render(second.warnings) == "");
  BOOST_TEST(effective_yaml(second) == yaml);
}

/// A line of YAML that gives a key some value it accepts; empty when the key has only one.
std::string some_value(const key_info& row, std::mt19937_64& random) {
  const auto pick = [&](auto& list) { return std::string(list[random() % list.size()]); };
  const double least = row.least.value_or(0), most = std::min(row.most.value_or(1e6), least + 1e6);
  switch (row.type) {
    case value_type::boolean:
      return random() % 2 == 0 ? "true" : "false";
    case value_type::bytes:
    case value_type::integer:
      return std::to_string(static_cast<uint64_t>(least) + random() % (static_cast<uint64_t>(most - least) + 1));
    case value_type::seconds:
    case value_type::number:
      return std::to_string(least + (most - least) * (0.1 + 0.8 * static_cast<double>(random() % 1000) / 1000));
    case value_type::dtype:
    case value_type::text:
      return row.choices.empty() ? "\"a \\\" \\u00e9: # {\"" : pick(row.choices);
    case value_type::path:
      return "some/../path";
    case value_type::number_list:
      return "[0.25, 0.5]";
    default:
      return "";
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(explain)

BOOST_AUTO_TEST_CASE(every_value_comes_with_its_origin) {
  const loaded l = must_load(smallest + "gradient_clipping: auto\naio: {queue_depth: 16}\n", "/base", {{"steps=7"}});
  const auto list = nlohmann::json::parse(troupe::config::explain(l, true));
  const auto of = [&](const std::string& key) {
    for (const auto& item : list)
      if (item["key"] == key)
        return item["value"].get<std::string>() + " | " + item["origin"].get<std::string>() + " | " +
               item["effect"].get<std::string>();
    return "no " + key;
  };
  BOOST_TEST(of("zero_optimization.stage") == "3 | j.yaml:8:28 | acts");
  BOOST_TEST(of("zero_optimization.overlap_comm") == "true | derived | acts");
  BOOST_TEST(of("gradient_clipping") == "1 | auto | acts");
  BOOST_TEST(of("steps") == "7 | --set steps=7 | acts");
  BOOST_TEST(of("train_batch_size") == "8 | derived | acts");
  BOOST_TEST(of("fp16.hysteresis") == "2 | default | acts");
  BOOST_TEST(of("aio.queue_depth") == "16 | j.yaml:10:20 | acts_when");
  BOOST_TEST(of("model.n_layer") == "2 | j.yaml:1:36 | acts");
  BOOST_TEST(of("data.text") == "\"/base/corpus.txt\" | j.yaml:2:14 | acts");
  size_t values = 0;
  for (const key_info& row : key_table()) values += row.type == value_type::section || row.any_name() ? 0 : 1;
  BOOST_TEST(list.size() == values);
  BOOST_TEST(troupe::config::explain(l, false).find(
                 "zero_optimization.stage = 3  (j.yaml:8:28)\n    What is cut over") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_effective_yaml_loads_to_the_same_configuration) {
  round_trips(smallest);
  round_trips(
      smallest_with("model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}",
                    "model: {path: folder}"));
  round_trips(
      smallest_with("model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}",
                    "model: {model_type: llama, num_key_value_heads: null, vocab_size: 3e2, rms_norm_eps: 1e-5,"
                    " rope_parameters: {rope_type: default, rope_theta: 10000.0}, hidden_act: silu, mlp_bias: true}"));
  for (const char* scheduler :
       {"WarmupLR, params: {warmup_max_lr: 0.1}", "WarmupDecayLR, params: {total_num_steps: 2e3}",
        "WarmupCosineLR, params: {total_num_steps: 2000, cos_min_ratio: 0.25}"})
    round_trips(smallest + "scheduler: {type: " + scheduler + "}\n");
  round_trips(smallest + "data_types: {param_dtype: fp64}\n");
}

/// What two keys may not say together is tested where the rule is; here each key speaks for itself.
bool is_free(const key_info& row) {
  static const std::set<std::string_view> bound = {"gradient_accumulation_steps",
                                                   "fp16.enabled",
                                                   "prescale_gradients",
                                                   "gradient_predivide_factor",
                                                   "optimizer.type",
                                                   "optimizer.params.adam_w_mode",
                                                   "optimizer.params.nesterov",
                                                   "optimizer.params.min_coeff",
                                                   "scheduler.type",
                                                   "scheduler.params.cycle_min_lr",
                                                   "scheduler.params.cycle_min_mom",
                                                   "scheduler.params.cycle_max_mom",
                                                   "data.text",
                                                   "data.tokenizer"};
  return row.has_field() && !row.only && row.section() != "model" && row.section() != "data_types" &&
         !row.key.starts_with("train_") && !row.in_list() && !bound.contains(row.key);
}

/// A list of mappings of a key's items, each with what it must have and some of the rest.
std::string some_items(const std::string& list, std::mt19937_64& random) {
  std::string out = list + "=[";
  for (size_t n = 1 + random() % 12; n > 0; --n) {
    out += "{";
    for (const key_info& row : key_table())
      if (row.section() == list + "[]" && (row.required || random() % 2 == 0))
        out += std::string(row.name()) + ": " +
               (row.name() == "match" ? "\"[a-z]+\\\\.(bias|weight)$\"" : some_value(row, random)) + ", ";
    out += "}, ";
  }
  return out + "]";
}

std::string one_of(const char* key, std::mt19937_64& random) {
  const auto& choices = key_named(key)->choices;
  return std::string(choices[random() % choices.size()]);
}

BOOST_AUTO_TEST_CASE(random_valid_files_round_trip) {
  std::mt19937_64 random(7);
  const char* cases = std::getenv("TROUPE_MUTATIONS");
  for (size_t i = cases == nullptr ? 300 : std::strtoull(cases, nullptr, 10) / 10; i > 0; --i) {
    const std::string optimizer = one_of("optimizer.type", random), scheduler = one_of("scheduler.type", random);
    std::vector<std::string> overrides = {"optimizer={type: " + optimizer + "}"};
    const bool curve = random() % 3 != 0, listed = random() % 2 == 0;
    if (curve) overrides.push_back("scheduler={type: " + scheduler + "}");
    if (listed) overrides.push_back(some_items("data.sources", random));
    if (random() % 2 == 0) overrides.push_back(some_items("parameter_groups", random));
    for (const key_info& row : key_table()) {
      const bool in_curve = row.section() == "scheduler.params";
      const std::string& type = in_curve ? scheduler : optimizer;
      const bool needed = std::ranges::find(row.needed_by, type) != row.needed_by.end();
      if (!row.read_by(type) || (in_curve && !curve)) continue;
      if (needed && row.name() == "cycle_min_lr") overrides.push_back(row.key + "=0");
      if (!is_free(row) || (!needed && random() % 4 != 0)) continue;
      if (const std::string value = some_value(row, random); !value.empty()) overrides.push_back(row.key + "=" + value);
    }
    const std::string text =
        listed ? smallest_with("data: {text: corpus.txt}\n", "") : smallest_with("{lr: 1.0e-3}", "{}");
    const loaded first = must_load(listed ? text.substr(0, text.find("optimizer")) : text, "/base", {overrides});
    const std::string yaml = effective_yaml(first);
    const loaded second = must_load(yaml, "/elsewhere");
    BOOST_TEST(all_fields(second.config) == all_fields(first.config));
    BOOST_TEST(effective_yaml(second) == yaml);
  }
}

BOOST_AUTO_TEST_CASE(what_is_wrong_can_be_had_as_json) {
  load_options plain;
  plain.read_as = reading::either;
  const auto l = load_text("{\"fp16\": {\"enabled\": 3}}", "ds.json", "/base", plain);
  BOOST_TEST_REQUIRE(!l.has_value());
  const auto list = nlohmann::json::parse(as_json(l.error()));
  BOOST_TEST_REQUIRE(list.size() == 1U);
  BOOST_TEST(list[0] == nlohmann::json::parse(R"({"severity": "error", "file": "ds.json", "line": 1, "column": 22,
    "key": "fp16.enabled", "text": "wanted true or false, got 3"})"));
  BOOST_TEST(as_json({}) == "[]\n");
}

BOOST_AUTO_TEST_CASE(what_a_type_does_not_read_has_no_effect) {
  const loaded l = must_load(smallest_with("{type: AdamW, params: {lr: 1.0e-3}}", "{type: SGD}"));
  const auto list = nlohmann::json::parse(troupe::config::explain(l, true));
  const auto of = [&](const std::string& key) {
    for (const auto& item : list)
      if (item["key"] == key) return item["effect"].get<std::string>() + ": " + item["reason"].get<std::string>();
    return std::string();
  };
  BOOST_TEST(of("optimizer.params.max_coeff") == "no_effect: a key of lamb, not of sgd");
  BOOST_TEST(of("scheduler.params.power") == "no_effect: a key of PolynomialLR");
  BOOST_TEST(of("optimizer.params.momentum") == "acts: ");
}

BOOST_AUTO_TEST_CASE(the_reference_in_docs_is_current) {
  const std::string file = std::string(TROUPE_SOURCE_DIR) + "/docs/configuration.md";
  if (std::getenv("TROUPE_WRITE_DOCS") != nullptr) std::ofstream(file, std::ios::binary) << reference_markdown();
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  BOOST_TEST((text.str() == reference_markdown()),
             "docs/configuration.md is not what the table says: run this test with TROUPE_WRITE_DOCS=1");
}

BOOST_AUTO_TEST_SUITE_END()
