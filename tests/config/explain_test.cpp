// Tests the text that explains a loaded configuration, and that this text can be loaded as a configuration.
#include "config/explain.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "config/keys/values.hpp"
#include "tests/config/random_job.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(explain)

using namespace troupe::config;

namespace {

loaded must_load(const std::string& text, const std::string& folder = "/base", const load_options& options = {}) {
  auto l = load_text(text, "j.yaml", folder, options);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error()) + text));
  return std::move(*l);
}

/// Returns the value of every field that has a key, one per line, followed by the model.
std::string all_fields(const job_config& c) {
  std::string out = c.model.hugging_face_json + "\n";
  for (const key_info& row : key_table()) {
    const key_info* list = row.in_list() ? key_named(row.section()) : nullptr;
    for (size_t i = 0; i < (list == nullptr ? 1 : list->target.items(c)); ++i)
      if (row.has_field()) out += row.key + " = " + field_text(row, c, i) + "\n";
  }
  return out;
}

/// Returns the reason why a key has no effect, or " acts".
std::string reason_in(const loaded& l, const std::string& key) {
  const auto list = nlohmann::json::parse(troupe::config::explain_json(l))["values"];
  for (const auto& item : list)
    if (item["key"] == key) return item["reason"].get<std::string>() + (item["effect"] == "acts" ? " acts" : "");
  return "no " + key;
}

void round_trips(const std::string& text) {
  const loaded first = must_load(text);
  const std::string yaml = effective_yaml(first);
  const loaded second = must_load(yaml, "/elsewhere");
  BOOST_TEST(all_fields(second.config) == all_fields(first.config));
  BOOST_TEST(render(second.warnings) == "");
  BOOST_TEST(effective_yaml(second) == yaml);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_value_comes_with_its_origin) {
  const loaded l = must_load(smallest + "gradient_clipping: auto\naio: {queue_depth: 16}\n", "/base", {{"steps=7"}});
  const auto list = nlohmann::json::parse(troupe::config::explain_json(l))["values"];
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
  BOOST_TEST(of("fp16.hysteresis") == "2 | default | no_effect");
  BOOST_TEST(of("aio.queue_depth") == "16 | j.yaml:10:20 | no_effect");
  BOOST_TEST(of("model.n_layer") == "2 | j.yaml:1:36 | acts");
  BOOST_TEST(of("data.text") == "\"/base/corpus.txt\" | j.yaml:2:14 | acts");
  size_t values = 0;
  for (const key_info& row : key_table()) values += row.type == value_type::section || row.any_name() ? 0 : 1;
  BOOST_TEST(list.size() == values);
  BOOST_TEST(troupe::config::explain_text(l).find("zero_optimization.stage = 3  (j.yaml:8:28)\n    What is cut over") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(keys_whose_switch_is_off_are_shown_without_effect) {
  const auto reason = [](const std::string& text, const std::string& key) { return reason_in(must_load(text), key); };
  BOOST_TEST(reason(smallest, "fp16.loss_scale") == "fp16.enabled is false");
  BOOST_TEST(reason(smallest, "fp16.enabled") == " acts");
  BOOST_TEST(reason(smallest + "fp16: {enabled: true}\n", "fp16.loss_scale") == " acts");
  BOOST_TEST(reason(smallest, "bf16.check_grad_overflow") == "bf16.enabled is false");
  BOOST_TEST(reason(smallest, "tensorboard.job_name") == "tensorboard.enabled is false");
  BOOST_TEST(reason(smallest, "compile.memory_budget") == "compile.deepcompile is false");
  BOOST_TEST(reason(smallest, "on_spike.factor") == "on_spike.action is none");
  BOOST_TEST(reason(smallest, "cluster.page_token_file") == "there is no cluster.page");
  BOOST_TEST(reason(smallest, "cluster.restarts.max") == "cluster.processes is one");
  BOOST_TEST(reason(smallest, "sample.prompt") == "sample.tokens is 0");
  BOOST_TEST(reason(smallest, "distillation.terms.logits.beta") == "distillation.enabled is false");
  const std::string weights = "compression_training.weight_quantization.shared_parameters.";
  BOOST_TEST(reason(smallest, weights + "fp16_mixed_quantize.enabled") == weights + "enabled is false");

  const std::string cut = "activation_checkpointing.partition_activations",
                    keys = "activation_checkpointing: {partition_activations: true, enabled: ",
                    tensor = "tensor_parallel: {autotp_size: 2}\n";
  BOOST_TEST(reason(smallest + keys + "true}\n", cut) == "parallel.tensor is 1");
  BOOST_TEST(reason(smallest + keys + "false}\n" + tensor, cut) == "activation_checkpointing.enabled is false");
  BOOST_TEST(reason(smallest + keys + "true}\n" + tensor, cut) == " acts");
  // A degree that the run chooses may be above 1.
  const std::string open = smallest_with("data: 2", "ranks: 4, data: auto, tensor: auto") + "train_batch_size: 16\n";
  BOOST_TEST(reason(open + keys + "true}\n", cut) == " acts");
}

BOOST_AUTO_TEST_CASE(a_key_that_is_warned_of_is_shown_with_the_same_reason) {
  const auto agrees = [](const std::string& lines, const std::string& key, const std::string& why,
                         const std::vector<std::string>& set = {}) {
    const loaded l = must_load(smallest + lines + "\n", "/base", {set});
    const std::string warnings = render(l.warnings);
    BOOST_TEST(warnings.find(": warning: " + key + ": no effect: " + why + "\n") != std::string::npos, warnings);
    BOOST_TEST(reason_in(l, key) == why);
  };
  const std::vector<std::string> stage_1 = {"zero_optimization.stage=1"};
  agrees("checkpoint: {every_steps: 5, asynchronous: false, when_busy: skip}", "checkpoint.when_busy",
         "checkpoint.asynchronous is false: a checkpoint ends before the next is due");
  agrees("sequence_parallel: {enabled: true}", "sequence_parallel.enabled", "sequence_parallel.size is 1");
  agrees("prescale_gradients: true", "prescale_gradients", "there is one data rank",
         {"zero_optimization.stage=1", "parallel.data=1"});
  agrees("prescale_gradients: true\ngradient_predivide_factor: 2", "gradient_predivide_factor",
         "prescale_gradients is true, which divides by the number of data ranks before the sum", stage_1);
  agrees("", "data.bin_dtype", "it is the type of tokens in .bin files, and every source is plain text",
         {"data.bin_dtype=uint32"});
  agrees("comms_logger: {enabled: true, prof_ops: [all_reduce]}", "comms_logger.prof_ops",
         "comms_logger.prof_all is true; set it to false to log only these");
  agrees("tensor_parallel: {vocab_parallel_lm_head: true}", "tensor_parallel.vocab_parallel_lm_head",
         "parallel.tensor is 1");
  agrees("checkpoint: {memory: {every_steps: 0, copies: 1}}\ncluster: {processes: ranks}", "checkpoint.memory.copies",
         "every_steps is 0");

  BOOST_TEST(reason_in(must_load(smallest), "gradient_predivide_factor") == " acts");
  BOOST_TEST(reason_in(must_load(smallest), "checkpoint.when_busy") == " acts");
  BOOST_TEST(reason_in(must_load(smallest_with("corpus.txt", "corpus.bin")), "data.bin_dtype") == " acts");
}

// The processes of a job read the effective configuration. It must contain a value for all groups only if the file has
// one.
BOOST_AUTO_TEST_CASE(a_groups_own_share_stays_its_own_in_the_effective_yaml) {
  for (const std::string shared : {"", "dense_ratio: 0.25, "}) {
    BOOST_TEST_INFO_SCOPE(shared);
    const std::string text =
        smallest + "compression_training:\n  sparse_pruning: {shared_parameters: {enabled: true, " + shared +
        "method: snip_momentum, schedule_offset: 2}, different_groups: {a: {params: {dense_ratio: 0.5}}}}\n";
    round_trips(text);
    const auto again = must_load(effective_yaml(must_load(text))).config.compression;
    BOOST_TEST_REQUIRE(again.sparse.groups.size() == 1U);
    BOOST_TEST(again.sparse.groups[0].dense_ratio == (shared.empty() ? 0.5 : 0.25));
  }
}

BOOST_AUTO_TEST_CASE(groups_of_modules_are_in_the_effective_yaml) {
  const std::string text =
      smallest_with("steps: 100", "steps: 2000") +
      "compression_training:\n"
      "  row_pruning: {shared_parameters: {enabled: true}, different_groups: {mlp: {params: "
      "{dense_ratio: 0.25}, modules: ['mlp\\.c_fc'], related_modules: [['mlp\\.c_proj']]}}}\n"
      "  weight_quantization: {shared_parameters: {enabled: true, quantize_weight_in_forward: true},"
      " different_groups: {all: {params: {start_bits: 8, target_bits: 4}}}}\n";
  round_trips(text);
  const auto again = must_load(effective_yaml(must_load(text))).config.compression;
  BOOST_TEST_REQUIRE(again.rows.groups.size() == 1U);
  BOOST_TEST(again.rows.groups[0].name == "mlp");
  BOOST_TEST(again.rows.groups[0].dense_ratio == 0.25);
  BOOST_TEST((again.rows.groups[0].modules == std::vector<std::string>{"mlp\\.c_fc"}));
  BOOST_TEST((again.rows.groups[0].related == std::vector<std::vector<std::string>>{{"mlp\\.c_proj"}}));
  BOOST_TEST_REQUIRE(again.weights.groups.size() == 1U);
  BOOST_TEST(again.weights.groups[0].target_bits == 4U);
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
    round_trips(smallest_with("steps: 100", "steps: 2000") + "scheduler: {type: " + scheduler + "}\n");
  round_trips(smallest + "data_types: {param_dtype: fp64}\n");
}

BOOST_AUTO_TEST_CASE(random_valid_files_round_trip) {
  std::mt19937_64 random(7);
  for (size_t i = random_cases(); i > 0; --i) {
    const random_job job = some_job(random);
    const loaded first = must_load(job.text, "/base", {job.overrides});
    const std::string yaml = effective_yaml(first);
    const loaded second = must_load(yaml, "/elsewhere");
    BOOST_TEST(all_fields(second.config) == all_fields(first.config));
    BOOST_TEST(effective_yaml(second) == yaml);
  }
}

BOOST_AUTO_TEST_CASE(a_random_file_with_one_broken_value_is_refused_there_and_nowhere_else) {
  std::mt19937_64 random(8);
  for (size_t i = random_cases(); i > 0; --i) {
    const random_job job = some_job(random);
    const std::string yaml = effective_yaml(must_load(job.text, "/base", {job.overrides}));
    std::vector<std::string> lines;
    std::istringstream in(yaml);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    size_t at = 0;
    const auto has_value = [&] {
      const size_t colon = lines[at].find(": ");
      return lines[at][0] != '#' && colon != std::string::npos;
    };
    do at = random() % lines.size();
    while (!has_value());
    const size_t name = lines[at].find_first_not_of(" -"), colon = lines[at].find(": ");
    const std::string broken = lines[at].substr(name, colon - name);
    lines[at] = lines[at].substr(0, colon) + ": {not: [1]}";
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    const auto l = load_text(text, "j.yaml", "/base");
    BOOST_TEST_REQUIRE(!l.has_value(), text);
    const diagnostic& first = l.error()[0];
    BOOST_TEST(l.error().size() == 1U, render(l.error()));
    BOOST_TEST(first.line == static_cast<int>(at) + 1, render(l.error()) + text);
    BOOST_TEST((first.key == broken || first.key.ends_with("." + broken)), render(l.error()));
  }
}

BOOST_AUTO_TEST_CASE(errors_can_be_had_as_json) {
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

BOOST_AUTO_TEST_CASE(keys_that_a_type_does_not_read_have_no_effect) {
  const loaded l = must_load(smallest_with("{type: AdamW, params: {lr: 1.0e-3}}", "{type: SGD}"));
  const auto list = nlohmann::json::parse(troupe::config::explain_json(l))["values"];
  const auto of = [&](const std::string& key) {
    for (const auto& item : list)
      if (item["key"] == key) return item["effect"].get<std::string>() + ": " + item["reason"].get<std::string>();
    return std::string();
  };
  BOOST_TEST(of("optimizer.params.max_coeff") == "no_effect: a key of lamb, not of sgd");
  BOOST_TEST(of("scheduler.params.power") == "no_effect: a key of PolynomialLR");
  BOOST_TEST(of("optimizer.params.momentum") == "acts: ");
}

BOOST_AUTO_TEST_CASE(keys_of_what_is_switched_off_have_no_effect) {
  const loaded l = must_load(smallest + "pipeline: {schedule: gpipe}\n");
  const auto list = nlohmann::json::parse(troupe::config::explain_json(l))["values"];
  const auto of = [&](const std::string& key) {
    for (const auto& item : list)
      if (item["key"] == key) return item["effect"].get<std::string>() + ": " + item["reason"].get<std::string>();
    return std::string();
  };
  BOOST_TEST(of("pipeline.schedule") == "no_effect: parallel.pipeline is 1");
  BOOST_TEST(of("evaluation.batches") == "no_effect: there is neither data.validation_fraction nor data.validation");
  BOOST_TEST(of("pipeline.profile") == "acts: ");
  BOOST_TEST(of("telemetry.trace_from_step") == "acts: ");
}

BOOST_AUTO_TEST_CASE(given_keys_alone_can_be_shown) {
  const loaded l =
      must_load("model: {path: m}\ndata: {text: a}\nsteps: 2\ntrain_batch_size: 4\n", "/base", {{"seed=3"}});
  std::set<std::string> shown;
  const auto all = nlohmann::json::parse(troupe::config::explain_json(l, troupe::config::shown_keys::given));
  for (const auto& v : all["values"]) shown.insert(v["key"]);
  BOOST_TEST((shown == std::set<std::string>{"model.path", "data.text", "steps", "train_batch_size", "seed"}));
}

BOOST_AUTO_TEST_CASE(keys_that_wait_are_listed_by_capability) {
  const loaded l = must_load(smallest);
  const auto waiting = nlohmann::json::parse(troupe::config::explain_json(l))["waiting"];
  const auto of = [&](const std::string& capability) {
    std::set<std::string> keys;
    for (const auto& w : waiting)
      if (w["capability"] == capability)
        for (const auto& k : w["keys"])
          keys.insert(k["key"].get<std::string>() + ": " + k["values"].get<std::string>());
    return keys;
  };
  BOOST_TEST(of("expert parallelism").contains("parallel.expert: all but 1"));
  BOOST_TEST(of("pipeline parallelism").empty());
  BOOST_TEST(of("this learning rate schedule")
                 .contains("scheduler.type: ConstantLR, ExponentialLR, StepLR, MultiStepLR, LambdaLR, "
                           "CyclicLR, OneCycleLR, ReduceLROnPlateau"));
  BOOST_TEST(
      of("quantised communication (ZeRO++)").contains("zero_optimization.zero_quantized_weights: all but false"));
  size_t keys = 0, rows = 0;
  for (const auto& w : waiting) keys += w["keys"].size();
  for (const key_info& row : key_table())
    rows += row.support.capability.empty() || row.support.acts == effect::no_effect ? 0 : 1;
  BOOST_TEST(keys == rows);
}

BOOST_AUTO_TEST_CASE(the_settings_of_a_run_are_its_model_and_the_keys_that_differ_from_their_defaults) {
  const loaded l = must_load(smallest + "fp16: {enabled: true}\n", "/base", {{"steps=7"}});
  std::set<std::string> differ, keys;
  for (const auto& s : troupe::config::listed_settings(l.config)) {
    BOOST_TEST(keys.insert(s.key).second, s.key << " is listed twice");
    if (!s.is_default) differ.insert(s.key + " " + s.value);
  }
  for (const char* wanted : {"model.n_embd 64", "model.n_layer 2", "steps 7", "train_batch_size 8", "fp16.enabled true",
                             "optimizer.params.lr 0.001"})
    BOOST_TEST(differ.contains(wanted), wanted);
  BOOST_TEST(keys.contains("bf16.enabled"));
  BOOST_TEST(!differ.contains("bf16.enabled false"));
  BOOST_TEST(!keys.contains("data.sources[].text"));
}

BOOST_AUTO_TEST_CASE(the_guide_lists_keys_that_wait) {
  const std::string file = std::string(troupe::places::source_dir) + "/docs/deepspeed.md";
  std::ifstream in(file, std::ios::binary);
  std::ostringstream read;
  read << in.rdbuf();
  const std::string text = read.str(), head = "| waits for | keys |\n";
  const size_t begin = text.find(head);
  BOOST_TEST_REQUIRE(begin != std::string::npos);
  const size_t end = std::min(text.find("\n\n", begin), text.size() - 1) + 1;
  if (std::getenv("TROUPE_WRITE_DOCS") != nullptr)
    std::ofstream(file, std::ios::binary) << text.substr(0, begin) + waiting_markdown() + text.substr(end);
  else
    BOOST_TEST((text.substr(begin, end - begin) == waiting_markdown()),
               "docs/deepspeed.md is not what the table says: run this test with TROUPE_WRITE_DOCS=1");
}

BOOST_AUTO_TEST_CASE(the_reference_in_docs_is_current) {
  const std::string file = std::string(troupe::places::source_dir) + "/docs/configuration.md";
  if (std::getenv("TROUPE_WRITE_DOCS") != nullptr) std::ofstream(file, std::ios::binary) << reference_markdown();
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  BOOST_TEST((text.str() == reference_markdown()),
             "docs/configuration.md is not what the table says: run this test with TROUPE_WRITE_DOCS=1");
}

BOOST_AUTO_TEST_CASE(a_key_that_a_warning_leaves_without_effect_is_explained_so) {
  const auto agrees = [](const std::string& text, const std::vector<std::string>& set = {}) {
    const loaded l = must_load(text, "/base", {set});
    BOOST_TEST_REQUIRE(l.warnings.size() == 1U, text << render(l.warnings));
    const std::string begin = "no effect: ", said = l.warnings[0].text;
    BOOST_TEST_REQUIRE(said.starts_with(begin), said);
    BOOST_TEST(reason_in(l, l.warnings[0].key) == said.substr(begin.size()), text);
  };
  agrees(smallest + "aio: {queue_depth: 16}\n");
  agrees(smallest + "tied_gradients: per_use\n", {"model.tie_word_embeddings=false"});
  agrees(smallest +
         "compression_training: {row_pruning: {shared_parameters: {enabled: true, schedule_offset: 101}, "
         "different_groups: {a: {params: {dense_ratio: 0.5}, modules: [mlp]}}}}\n");
  agrees(smallest +
         "compile: {deepcompile: true, schedule: [{step: 0, passes: []}, {step: 100, passes: [prefetch]}]}\n");
  agrees(smallest_with("stage: 3", "stage: 3, offload_optimizer: {device: cpu}, zenflow: {full_warm_up_rounds: 100}"));
  agrees(smallest_with("{text: corpus.txt}", "{text: corpus.txt, skip: [{steps: 101-110}]}"));
}

BOOST_AUTO_TEST_SUITE_END()
