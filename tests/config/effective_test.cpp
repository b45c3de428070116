// Tests that the effective text of a configuration loads to an equal configuration, whatever values its keys have:
// every key of the table with values of every kind, every list section with short items, and texts that YAML reads as
// other types.
#include "config/effective.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "config/document/yaml_tree.hpp"
#include "config/explain.hpp"
#include "config/keys/values.hpp"
#include "tests/config/text.hpp"
#include "tests/crash/wanted_cases.hpp"

BOOST_AUTO_TEST_SUITE(effective)

using namespace troupe::config;

namespace {

/// Texts that change their type or value if they are written without quotes.
const std::vector<std::string> odd_texts = {"true",
                                            "False",
                                            "1e3",
                                            "0x1F",
                                            "1_000",
                                            "~",
                                            "null",
                                            "none",
                                            "[::1]:4472",
                                            "a: b",
                                            "a #b",
                                            "it's \"quoted\"",
                                            "  leading",
                                            "trailing  ",
                                            "line\nbreak\ttab\r\x01",
                                            "Gr\xC3\xBC\xC3\x9F"
                                            "e \xF0\x9F\x8E\xAD \xE2\x80\xA8",
                                            "-",
                                            "- a",
                                            "---",
                                            "{a}",
                                            "!tag",
                                            "&anchor",
                                            "*alias",
                                            "%",
                                            "@",
                                            "`",
                                            "|",
                                            ">",
                                            "yes",
                                            "<<",
                                            "a\\b",
                                            "2026-01-01",
                                            "=",
                                            "?",
                                            ",",
                                            "\x7F"};

template <class T>
struct takes_item : std::false_type {};
template <class T>
struct takes_item<item_field_of<T>> : std::true_type {};

/// Returns true if the field of key `row` has the same value in both configurations, whatever its spelling.
bool same_field(const key_info& row, job_config& a, job_config& b, size_t item) {
  return std::visit(
      [&](const auto& f) {
        using F = std::decay_t<decltype(f)>;
        if constexpr (std::is_same_v<F, hand_made>)
          return f.get(a) == f.get(b);
        else if constexpr (takes_item<F>::value)
          return f(a, item) != nullptr && f(b, item) != nullptr && *f(a, item) == *f(b, item);
        else if constexpr (std::is_same_v<F, std::monostate> || std::is_same_v<F, model_key>)
          return true;
        else
          return *f(a) == *f(b);
      },
      row.target.field);
}

std::string text_of_group(const module_group& g) {
  std::string out = g.name + ":";
  for (const auto& m : g.modules) out += " " + quoted(m);
  return out;
}

/// Returns the groups of all compression techniques as text, because their fields have no row in the table of keys.
std::string all_groups(const compression_section& c) {
  std::string out;
  for (const auto& g : c.weights.groups)
    out += fmt::format("{} {} {} {}\n", text_of_group(g), g.start_bits, g.target_bits, g.period);
  for (const auto& g : c.activations.groups) out += fmt::format("{} {}\n", text_of_group(g), g.bits);
  for (const auto* section : {&c.sparse, &c.rows, &c.heads, &c.channels})
    for (const auto& g : section->groups) {
      out += fmt::format("{} {:f}", text_of_group(g), g.dense_ratio);
      for (const auto& some : g.related)
        for (const auto& one : some) out += " " + quoted(one);
      out += "\n";
    }
  return out;
}

/// Returns the names of the keys whose fields differ between `a` and `b`.
std::string differences(job_config a, job_config b) {
  std::string out;
  for (const key_info& row : key_table()) {
    if (row.is_list() && row.target.items(a) != row.target.items(b)) out += row.key + " has other items\n";
    const key_info* list = row.in_list() ? key_named(row.section()) : nullptr;
    for (size_t i = 0; i < (list == nullptr ? 1 : list->target.items(a)); ++i)
      if (!same_field(row, a, b, i)) out += fmt::format("{} of item {} differs\n", row.key, i);
  }
  if (a.model.hugging_face_json != b.model.hugging_face_json) out += "the model differs\n";
  if (all_groups(a.compression) != all_groups(b.compression)) out += "groups of compression differ\n";
  return out;
}

void text_round_trips(const loaded& first, const std::string& what) {
  const std::string yaml = effective_yaml(first);
  const auto second = load_text(yaml, "again.yaml", "/elsewhere");
  BOOST_TEST_REQUIRE(second.has_value(), what + "\n" + (second ? "" : render(second.error())) + yaml);
  BOOST_TEST(differences(first.config, second->config) == "", what + "\n" + yaml);
  BOOST_TEST(effective_yaml(*second) == yaml, what);
}

loaded loads(const std::string& text, const load_options& options = {}) {
  auto out = load_text(text, "j.yaml", "/base", options);
  BOOST_TEST_REQUIRE(out.has_value(), (out ? std::string() : render(out.error())) + text);
  return std::move(*out);
}

/// Returns values of a key's type, as YAML, including some that the key itself does not accept.
std::vector<std::string> values_for(const key_info& row) {
  std::vector<std::string> out;
  for (const auto name : row.choices.names) out.push_back(quoted(std::string(name)));
  const auto number = [&](double least) {
    for (const double more : {0.0, 1.0, 2.0, 7.0, 64.0, 1024.0, 8192.0 - least})
      out.push_back(fmt::to_string(uint64_t(least + more)));
  };
  const double least = row.range.least.value_or(0);
  if (row.choices.or_number) number(least);
  switch (row.type) {
    case value_type::boolean:
      return {"true", "false"};
    case value_type::integer:
      number(least);
      return out;
    case value_type::number:
      for (const double more : {0.0, 1e-7, 0.1, 0.25, 0.5, 1.0, 1.5, 1e5})
        out.push_back(fmt::format("{}", least + more));
      return out;
    case value_type::seconds:
      return {fmt::format("{}", least + 0.25), "1500ms", "2min", "1h"};
    case value_type::bytes:
      return {"1", "8192", "2GiB", "\"3 MiB\""};
    case value_type::number_list:
      return {"[0.25, 0.5]", "[0.125, 0.875]"};
    case value_type::integers:
    case value_type::text_or_integers:
      out.insert(out.end(), {"[1]", "[2, 3]", "[0, 1]", "[8, 8, 100]", "uniform", "parameters", "\"type:a|b: c\""});
      return out;
    case value_type::object:
      return {"{layer_specs: [{patterns: ['a: b', \"~\"], partition_type: row, shape: [2, -1]}]}",
              "{rope_type: default, rope_theta: 5e4}"};
    case value_type::texts:
      for (const auto name : row.choices.names) out.push_back("[" + quoted(std::string(name)) + "]");
      out.emplace_back("[]");
      if (row.choices.names.empty()) {
        std::string all;
        for (const auto& text : odd_texts) {
          out.push_back(quoted(text));
          all += (all.empty() ? "[" : ", ") + quoted(text);
        }
        out.push_back(all + "]");
      }
      return out;
    case value_type::text:
    case value_type::path:
      if (row.choices.names.empty())
        for (const auto& text : odd_texts) out.push_back(quoted(text));
      return out;
    default:
      return out;
  }
}

/// The keys that some keys require, as `--set` texts; a name applies to all rows that begin with it.
const std::vector<std::pair<std::string, std::vector<std::string>>> company = {
    {"model.path", {"model=", "model.path=m"}},
    {"model.model_type", {"model=", "model.model_type=llama"}},
    {"train_batch_size", {"train_micro_batch_size_per_gpu=1"}},
    {"cuda.", {"device=cuda"}},
    {"lora.", {"lora.targets=q_proj"}},
    {"data.rampup_batch_size", {"train_batch_size=16"}},
    {"parallel.sharded_norms", {"parallel.tensor=2"}},
    {"tensor_parallel.exchange_pieces", {"parallel.tensor=2"}},
    {"cluster.offload_activations", {"activation_checkpointing.enabled=true"}},
    {"activation_checkpointing.", {"activation_checkpointing.enabled=true"}},
    {"prescale_gradients", {"zero_optimization.stage=1"}},
    {"gradient_predivide_factor", {"zero_optimization.stage=1", "prescale_gradients=true"}},
    {"elasticity.enabled",
     {"train_micro_batch_size_per_gpu=", "train_batch_size=64",
      "elasticity={max_train_batch_size: 64, "
      "micro_batch_sizes: [2, 4], ignore_non_elastic_batch_info: true}"}},
    {"optimizer.params.nesterov", {"optimizer={type: SGD, params: {momentum: 0.9}}"}},
    {"scheduler.params.cycle_max_mom",
     {"scheduler={type: OneCycle, params: {cycle_min_lr: 0, cycle_max_lr: 1, cycle_min_mom: 0.05}}"}},
    {"zero_optimization.offload_optimizer.super_offload", {"zero_optimization.offload_optimizer.device=cpu"}},
    {"zero_optimization.zenflow.select_interval",
     {"zero_optimization.offload_optimizer.device=cpu",
      "zero_optimization.zenflow={select_strategy: step, "
      "select_interval: 4}"}},
    {"zero_optimization.zenflow.",
     {"zero_optimization.offload_optimizer.device=cpu", "zero_optimization.zenflow={topk_ratio: 0.3}"}},
    {"checkpoint.load.", {"checkpoint.load.path=before"}},
    {"compression_training.weight_quantization.shared_parameters.enabled",
     {"compression_training.weight_quantization={shared_parameters: {quantize_weight_in_forward: true}, "
      "different_groups: "
      "{a: {params: {start_bits: 8, target_bits: 8}}}}"}},
    {"compression_training.activation_quantization.shared_parameters.enabled",
     {"compression_training.activation_quantization.different_groups={a: {params: {bits: 8}}}"}},
    {"compression_training.sparse_pruning.shared_parameters.enabled",
     {"compression_training.sparse_pruning.different_groups={a: {params: {dense_ratio: 0.5}}}"}},
    {"compression_training.row_pruning.shared_parameters.enabled",
     {"compression_training.row_pruning.different_groups={a: {params: {dense_ratio: 0.5}}}"}},
    {"compression_training.head_pruning.shared_parameters.enabled",
     {"compression_training.head_pruning={shared_parameters: {num_heads: 4}, different_groups: {a: {params: "
      "{dense_ratio: 0.5}}}}"}},
    {"compression_training.channel_pruning.shared_parameters.enabled",
     {"compression_training.channel_pruning.different_groups={a: {params: {dense_ratio: 0.5}}}"}},
    {"compression_training.layer_reduction.enabled",
     {"model.teacher=t",
      "compression_training.layer_reduction={keep_number_layer: 1, module_name_prefix: h, "
      "teacher_layer: [1]}"}},
    {"distillation.enabled", {"model.teacher=t"}},
    // A job reads one of these, not also the text of `smallest`.
    {"data.chat", {"data=", "data.chat=c"}},
    {"data.instruct", {"data=", "data.instruct=c"}},
    {"data.labelled", {"data=", "data.labelled=c"}},
    // The question needs a chat template.
    {"sample.question", {"data=", "data.chat=c"}},
};

std::vector<std::string> company_of(const std::string& key) {
  for (const auto& [head, more] : company)
    if (key.starts_with(head)) return more;
  const key_info& row = *key_named(key);
  if (const auto& of = row.types.families; !of.empty() && std::ranges::find(of, "gpt2") == of.end())
    return {"model=", fmt::format("model.model_type={}", of.front())};
  // The keys of one type of optimizer or scheduler require that type, and the other keys that the type requires.
  const std::string section(row.section().substr(0, row.section().find('.')));
  if (!row.section().ends_with(".params") || row.types.readers.empty()) return {};
  const std::string type(row.types.readers.front());
  std::vector<std::string> out = {section + "={type: " + type + "}"};
  for (const key_info& other : key_table())
    if (other.section() == row.section() &&
        std::ranges::find(other.types.needed_by, type) != other.types.needed_by.end())
      out.push_back(other.key + "=" + (other.name() == "cycle_min_lr" ? "0" : "2"));
  return out;
}

bool is_walked(const key_info& row) {
  return (row.has_field() || std::holds_alternative<model_key>(row.target.field)) && !row.any_name() &&
         row.type != value_type::section && row.support.refusal.empty() && row.support.acts == effect::acts &&
         row.support.only.empty();
}

load_result with_values(const std::vector<std::string>& overrides) {
  return load_text(smallest, "j.yaml", "/base", {overrides});
}

}  // namespace

// Each key is tried with a dozen values other than its default, beginning with a different value for each key; `make
// soak` tries all.
BOOST_AUTO_TEST_CASE(every_key_has_values_other_than_its_default_that_come_back_from_the_effective_text) {
  const uint64_t enough = troupe::tests::wanted_cases("TROUPE_CASES", 12);
  size_t first = 0;
  std::string without;
  for (const key_info& row : key_table()) {
    if (!is_walked(row)) continue;
    const auto more = company_of(row.key);
    const auto plain = with_values(more);
    BOOST_TEST_REQUIRE(plain.has_value(), row.key);
    size_t others = 0;
    std::string refusal = "\n";
    const auto values = values_for(row);
    ++first;
    for (size_t i = 0; i < values.size() && others < enough; ++i) {
      const std::string& value = values[(first + i) % values.size()];
      auto overrides = more;
      overrides.push_back(row.key + "=" + value);
      const auto given = with_values(overrides);
      if (!given) {
        refusal = render(given.error());
        continue;
      }
      auto a = plain->config, b = given->config;
      const bool differs = std::holds_alternative<model_key>(row.target.field)
                               ? a.model.hugging_face_json != b.model.hugging_face_json
                               : !same_field(row, a, b, 0);
      others += differs ? 1 : 0;
      text_round_trips(*given, row.key + "=" + value);
    }
    // select_strategy cannot be set without select_interval; `company`'s entry for select_interval sets both.
    if (others == 0 && row.key != "zero_optimization.zenflow.select_strategy") without += row.key + ": " + refusal;
  }
  BOOST_TEST(without == "", "no value but the default was accepted, so nothing was tried, of:\n" + without);
}

BOOST_AUTO_TEST_CASE(a_file_with_as_many_keys_as_go_together_comes_back_from_the_effective_text) {
  std::vector<std::string> overrides;
  for (const key_info& row : key_table()) {
    if (!is_walked(row) || row.section() == "model") continue;
    for (const std::string& value : values_for(row)) {
      overrides.push_back(row.key + "=" + value);
      if (with_values(overrides)) break;
      overrides.pop_back();
    }
  }
  BOOST_TEST(overrides.size() > 100U);
  text_round_trips(*with_values(overrides), "all together");
}

BOOST_AUTO_TEST_CASE(every_list_section_comes_back_with_items_that_give_little) {
  const std::map<std::string, std::vector<std::string>> texts = {
      {"data.sources",
       {"data: {sources: [{text: a}]}", "data: {sources: [{text: a}, {text: \"~\", weight: 2}, {text: c}]}",
        "data: {sources: [{text: \"a: b\", weight: 0.25, text_key: \"true\"}, {text: \"[::1]:4472\", text_key: ' "
        "k'}]}"}},
      {"parameter_groups",
       {"parameter_groups: [{match: a}]",
        "parameter_groups: [{match: ''}, {match: \"- a: #\\n\", lr: 0, weight_decay: 0, trainable: false}, {match: b}]",
        "parameter_groups: []"}},
      {"data.skip", {"data: {text: t, skip: [{steps: 3}]}", "data: {text: t, skip: [{steps: 7}, {steps: 812-820}]}"}},
      {"cluster.hosts",
       {"cluster: {processes: ranks, listen: \"[::1]:4472\", hosts: [{name: a}, {name: b}], tls: {ca: ca, certificate: "
        "c, "
        "key: k}}",
        "cluster: {processes: ranks, job: \"true\", listen: \"[::1]:4472\", hosts: [{name: \"null\", bind: \"::1\"}, "
        "{name: "
        "\"1e3\"}, {name: c, spare: true, bind: 10.0.0.1}], tls: {ca: ca, certificate: \"{host}: c\", key: ~/k}}"}},
      {"compile.schedule",
       {"compile: {deepcompile: true, schedule: [{step: 0, passes: []}]}",
        "compile: {deepcompile: true, schedule: [{step: 0, passes: []}, {step: 3, passes: [prefetch]}, {step: 9, "
        "passes: "
        "[]}]}",
        "compile: {deepcompile: true, schedule: [{step: 0, passes: [prefetch, fuse_buckets]}, {step: 5, passes: "
        "overlap_exchanges}]}",
        "compile: {schedule: []}"}},
  };
  for (const key_info& row : key_table()) {
    if (!row.is_list()) continue;
    const auto at = texts.find(std::string(row.list_name()));
    BOOST_TEST_REQUIRE((at != texts.end()), "texts of " + row.key + " for this test");
    for (const std::string& text : at->second) {
      const bool has_data = text.starts_with("data:");
      text_round_trips(
          loads(has_data ? smallest_with("data: {text: corpus.txt}\n", "") + text + "\n" : smallest + text + "\n"),
          text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_schedule_of_passes_reads_back_as_it_was_given) {
  const loaded first = loads(
      smallest + "compile: {deepcompile: true, schedule: [{step: 0, passes: []}, {step: 2, passes: [prefetch]}]}\n");
  const std::string yaml = effective_yaml(first);
  BOOST_TEST(yaml.find("  schedule:\n    - step: 0\n      passes: []\n    - step: 2\n      passes: [\"prefetch\"]\n") !=
                 std::string::npos,
             yaml);
}

BOOST_AUTO_TEST_CASE(groups_with_odd_names_and_patterns_come_back) {
  for (const std::string name :
       {"a", "null", "~", "true", "1e3", "-", "a.b", "a[0]", "x: y", "it's \"q\"", " b", "\\"}) {
    std::string modules;
    for (const auto& text : odd_texts) modules += (modules.empty() ? "[" : ", ") + quoted(text);
    for (const std::string& patterns :
         {std::string("none"), std::string("[none]"), std::string("\"1e3\""), modules + "]"})
      text_round_trips(loads(smallest +
                             "compression_training: {weight_quantization: {shared_parameters: {enabled: true, "
                             "quantize_weight_in_forward: true}, different_groups: {" +
                             quoted(name) + ": {params: {start_bits: 8, target_bits: 8}, modules: " + patterns +
                             "}, z: {params: {start_bits: 8, target_bits: 4}}}}}\n"),
                       name + " " + patterns);
  }
}

BOOST_AUTO_TEST_CASE(a_given_null_of_a_plain_deepspeed_file_stays_null) {
  load_options options;
  options.read_as = reading::deepspeed_only;
  const auto first =
      load_text("communication_data_type: null\nzero_optimization: {stage: 2, offload_optimizer: {device: none}}\n",
                "ds.yaml", "/base", options);
  BOOST_TEST_REQUIRE(first.has_value());
  const std::string yaml = effective_yaml(*first);
  const auto second = load_text(yaml, "again.yaml", "/base", options);
  BOOST_TEST_REQUIRE(second.has_value(), yaml);
  BOOST_TEST(effective_yaml(*second) == yaml);
}

BOOST_AUTO_TEST_CASE(a_tree_writes_lists_names_and_empty_values) {
  yaml_tree tree;
  tree.put("a.b", "1");
  tree.put_list("l", 3);
  tree.put("l[1].x", "\"y\"");
  tree.put("l[1].z.w", "[]");
  tree.put_list("a.none", 0);
  tree.put("null.\"a.b\".c", "null");
  BOOST_TEST(tree.text() ==
             "a:\n  b: 1\n  none: []\nl:\n  - {}\n  - x: \"y\"\n    z:\n      w: []\n  - {}\n\"null\":\n  \"a.b\":\n"
             "    c: null\n");
}

BOOST_AUTO_TEST_SUITE_END()
