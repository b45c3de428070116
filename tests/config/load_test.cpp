// Tests the configuration that results from loading a whole file.
#include "config/load.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "config/document/scalars.hpp"
#include "config/explain.hpp"
#include "tests/check_ok.hpp"
#include "tests/config/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(load)

using namespace troupe;
using namespace troupe::config;
using troupe::tests::check_ok;

namespace {

job_config loaded_config(const std::string& text, const load_options& options = {},
                         const std::string& name = "j.yaml") {
  const auto l = load_text(text, name, "/base", options);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
  return l->config;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_smallest_file_loads) {
  BOOST_TEST(warnings_of(smallest) == "");
  const job_config c = loaded_config(smallest);
  BOOST_TEST(c.model.hugging_face_json ==
             R"({"model_type":"gpt2","vocab_size":256,"n_layer":2,"n_embd":64,"n_head":4,"n_positions":64})");
  BOOST_TEST(c.data.text == "/base/corpus.txt");
  BOOST_TEST(c.data.tokenizer == "bytes");
  BOOST_TEST(c.parallel.ranks() == 2U);
  BOOST_TEST(c.seed == 1U);
  BOOST_TEST(c.steps == 100U);
  BOOST_TEST(c.train_batch_size == 8U);
  BOOST_TEST(c.gradient_accumulation_steps == 1U);
  BOOST_TEST((c.optimizer.type == core::optimizer_type::adamw));
  BOOST_TEST(c.optimizer.lr == 1e-3);
  BOOST_TEST(c.zero_optimization.stage == 3U);
  BOOST_TEST(c.zero_optimization.stage3_param_persistence_threshold == 0U);
  BOOST_TEST(c.zero_optimization.overlap_comm);
  BOOST_TEST(c.gradient_clipping == 1.0);
  BOOST_TEST(c.output == std::filesystem::current_path() / "runs" / "j");
}

BOOST_AUTO_TEST_CASE(a_folder_whose_name_is_not_utf8_is_said) {
  const auto warnings_in = [](const char* folder) {
    const auto l = load_text(smallest, "j.yaml", folder);
    return l ? render(l->warnings) : "does not load: " + render(l.error());
  };
  const std::string odd = warnings_in("/caf\xE9");
  BOOST_TEST(odd.starts_with("j.yaml:1:1: warning: paths in '/caf"), odd);
  BOOST_TEST(odd.find("are not UTF-8 text: config.yaml and checkpoints record them with other names") != odd.npos, odd);
  BOOST_TEST(warnings_in("/caf\xC3\xA9") == "");
}

BOOST_AUTO_TEST_CASE(overlap_that_is_not_given_or_null_is_derived_and_on_at_every_stage) {
  for (const std::string stage : {"0", "1", "2", "3"}) {
    BOOST_TEST_INFO_SCOPE(stage);
    for (const std::string more : {"", ", overlap_comm: null", ", overlap_comm: auto"}) {
      BOOST_TEST_INFO_SCOPE(more);
      const auto l = load_text(smallest_with("stage: 3", "stage: " + stage + more), "j.yaml", "/base");
      BOOST_TEST_REQUIRE(l.has_value(), (l ? "" : render(l.error())));
      BOOST_TEST(l->config.zero_optimization.overlap_comm);
      const auto shown = std::ranges::find(l->values, "zero_optimization.overlap_comm", &effective_value::key);
      BOOST_TEST_REQUIRE((shown != l->values.end()));
      BOOST_TEST(shown->value + " " + shown->origin == "true derived");
    }
    for (const std::string said : {"true", "false"})
      BOOST_TEST(loaded_config(smallest_with("stage: 3", "stage: " + stage + ", overlap_comm: " + said))
                     .zero_optimization.overlap_comm == (said == "true"));
  }
}

BOOST_AUTO_TEST_CASE(null_and_zero_mean_the_same_as_in_deepspeeds_class) {
  const auto of = [](const std::string& more) {
    return loaded_config(smallest_with("stage: 3", "stage: 3, " + more)).zero_optimization;
  };
  BOOST_TEST(of("reduce_bucket_size: 0").reduce_bucket_size == 0U);
  BOOST_TEST(of("allgather_bucket_size: 0").allgather_bucket_size == 0U);
  BOOST_TEST(of("allgather_bucket_size: 7").allgather_bucket_size_given);
  BOOST_TEST(!of("elastic_checkpoint: true").allgather_bucket_size_given);
  BOOST_TEST(!of("ignore_unused_parameters: false").ignore_unused_parameters);
  BOOST_TEST(of("pipeline_loading_checkpoint: true").pipeline_loading_checkpoint);
  for (const char* key : {"cpu_offload", "cpu_offload_param", "cpu_offload_params", "cpu_offload_use_pin_memory"}) {
    BOOST_TEST_INFO_SCOPE(key);
    const zero_section z = of(std::string(key) + ": null");
    BOOST_TEST((z.offload_optimizer.device == offload_device::none && z.offload_param.device == offload_device::none));
  }
}

BOOST_AUTO_TEST_CASE(auto_means_the_default) {
  const job_config c =
      loaded_config(smallest_with("stage: 3", "stage: 3, reduce_bucket_size: auto, overlap_comm: \"auto\"") +
                    "gradient_clipping: auto\nfp16: auto\n");
  BOOST_TEST(c.zero_optimization.reduce_bucket_size == 500'000'000U);
  BOOST_TEST(c.zero_optimization.overlap_comm);
  BOOST_TEST(c.gradient_clipping == 1.0);
  BOOST_TEST(!c.fp16.enabled);
}

BOOST_AUTO_TEST_CASE(integers_may_be_written_with_an_exponent) {
  const auto bucket = [](const std::string& text) {
    return loaded_config(smallest_with("stage: 3", "stage: 3, reduce_bucket_size: " + text))
        .zero_optimization.reduce_bucket_size;
  };
  BOOST_TEST(bucket("5e8") == 500'000'000U);
  BOOST_TEST(bucket("2.5e3") == 2500U);
  BOOST_TEST(bucket("7.0") == 7U);
  BOOST_TEST(bucket("0.0050e3") == 5U);
  // A double cannot represent 2^53 + 1.
  for (const char* text : {"9007199254740993", "9007199254740993e0", "9007199254740993.0", "900719925474099.30E+1",
                           "90071992547409930e-1"})
    BOOST_TEST(bucket(text) == 9007199254740993U, text);
  BOOST_TEST(loaded_config(smallest_with("stage: 3", "stage: 3, model_persistence_threshold: 18446744073709551615"))
                 .zero_optimization.stage3_model_persistence_threshold == 18446744073709551615U);
}

BOOST_AUTO_TEST_CASE(an_integer_that_only_its_rounded_value_would_be_is_none) {
  const auto read = [](const std::string& text) {
    return integer_in(*make_scalar(node_kind::plain, text, {})).has_value();
  };
  for (const char* text : {"9007199254740992.5", "1.00000000000000000001", "5e-1", "18446744073709551616", "1.9e19",
                           "1e400", "--5", "-+5", "+-5", "inf", "e5", ""})
    BOOST_TEST(!read(text), text);
  for (const char* text : {"0e999999999999", "-0.0", "+5", "-5e0", ".5e1", "18446744073709551615.0"})
    BOOST_TEST(read(text), text);
}

BOOST_AUTO_TEST_CASE(names_with_and_without_stage3_are_the_same_key) {
  for (const char* prefix : {"", "stage3_"}) {
    BOOST_TEST_INFO_SCOPE(prefix);
    const auto key = [&](const char* name, int value) { return fmt::format(", {}{}: {}", prefix, name, value); };
    const auto z =
        loaded_config(smallest_with("{stage: 3, stage3_param_persistence_threshold: 0, stage3_max_reuse_distance: 0}",
                                    "{stage: 3" + key("prefetch_bucket_size", 1) +
                                        key("param_persistence_threshold", 2) + key("model_persistence_threshold", 3) +
                                        key("max_live_parameters", 4) + key("max_reuse_distance", 5) + "}"))
            .zero_optimization;
    BOOST_TEST(z.stage3_prefetch_bucket_size == 1U);
    BOOST_TEST(z.stage3_param_persistence_threshold == 2U);
    BOOST_TEST(z.stage3_model_persistence_threshold == 3U);
    BOOST_TEST(z.stage3_max_live_parameters == 4U);
    BOOST_TEST(z.stage3_max_reuse_distance == 5U);
  }
  BOOST_TEST(loaded_config(smallest + "bfloat16: {enabled: true}\n").bf16.enabled);
}

BOOST_AUTO_TEST_CASE(a_bool_for_zero_optimization_is_stage_1_or_0) {
  const std::string zero = smallest.substr(smallest.find("zero_optimization"));
  const auto with = [&](const std::string& text) { return loaded_config(smallest_with(zero, text)).zero_optimization; };
  BOOST_TEST(with("zero_optimization: true\n").stage == 1U);
  BOOST_TEST(with("zero_optimization: true\nallgather_size: 1e6\n").allgather_bucket_size == 1'000'000U);
  BOOST_TEST(with("allgather_size: 1e6\nzero_optimization: true\n").allgather_bucket_size == 1'000'000U);
  BOOST_TEST(with("zero_optimization: false\n").stage == 0U);
  BOOST_TEST(warnings_of(smallest_with(zero, "zero_optimization: true\n")) ==
             "j.yaml:8:1: warning: zero_optimization: deprecated, write zero_optimization: {stage: 1}\n");
}

BOOST_AUTO_TEST_CASE(seconds_and_bytes_have_units) {
  const auto stall = [](const std::string& v) {
    return loaded_config(smallest + "cluster: {stall_after: " + v + "}\n").stall_after_s;
  };
  BOOST_TEST(stall("5") == 5.0);
  BOOST_TEST(stall("5s") == 5.0);
  BOOST_TEST(stall("500ms") == 0.5);
  BOOST_TEST(stall("2min") == 120.0);
  BOOST_TEST(stall("1.5 h") == 5400.0);
  const auto budget = [](const std::string& v) {
    return loaded_config(smallest + "cluster: {host_memory_budget: " + v + "}\n").host_memory_budget;
  };
  BOOST_TEST(budget("1000000") == 1'000'000U);
  BOOST_TEST(budget("4GiB") == uint64_t{4} << 30);
  BOOST_TEST(budget("1.5 GB") == 1'500'000'000U);
}

BOOST_AUTO_TEST_CASE(schedulers_get_their_numbers) {
  const std::string params =
      "scheduler: {type: warmupdecaylr, params: {total_num_steps: 100, warmup_num_steps: 10, warmup_type: linear}}\n";
  const auto s = loaded_config(smallest + params).scheduler;
  BOOST_TEST((s.type == core::schedule_type::warmup_decay));
  BOOST_TEST(s.total_num_steps == 100U);
  BOOST_TEST((s.warmup_type == core::warmup_shape::linear));
  BOOST_TEST((s.warmup_max_lr == 0.001));
  BOOST_TEST(!loaded_config(smallest + "scheduler: {type: WarmupLR}\n").scheduler.warmup_max_lr.has_value());
}

BOOST_AUTO_TEST_CASE(param_dtype_fp64_is_the_reference_mode) {
  const job_config c = loaded_config(smallest + "data_types: {param_dtype: float64}\n");
  BOOST_TEST(c.data_types.reference_fp64);
  BOOST_TEST((c.parameter_dtype() == core::dtype::f64));
  BOOST_TEST((loaded_config(smallest + "communication_data_type: half\n").communication_dtype() == core::dtype::f16));
}

BOOST_AUTO_TEST_CASE(overrides_win_and_later_ones_win_over_earlier) {
  const job_config c = loaded_config(
      smallest, {{"zero_optimization.stage=2", "optimizer.params.lr=1e-4", "steps=3", "steps=4",
                  "zero_optimization.max_reuse_distance=7", "model.n_layer=3", "sample={tokens: 5, prompt: Hi}"}});
  BOOST_TEST(c.zero_optimization.stage == 2U);
  BOOST_TEST(c.zero_optimization.stage3_max_reuse_distance == 7U);
  BOOST_TEST(c.optimizer.lr == 1e-4);
  BOOST_TEST(c.steps == 4U);
  BOOST_TEST(c.model.hugging_face_json.find("\"n_layer\":3") != std::string::npos);
  BOOST_TEST(c.sample.prompt == "Hi");
  load_options steps;
  steps.steps = 9;
  BOOST_TEST(loaded_config(smallest_with("steps: 100", ""), steps).steps == 9U);
}

BOOST_AUTO_TEST_CASE(an_override_of_one_name_in_a_mapping_leaves_its_others) {
  const std::string text = smallest +
                           "tensor_parallel:\n  partition_config:\n    use_default_specs: false\n"
                           "    layer_specs: [{patterns: [c_fc], partition_type: column}]\n";
  const auto partition = [&](std::vector<std::string> overrides) {
    return loaded_config(text, {.overrides = std::move(overrides)}).tensor_parallel.partition;
  };
  const auto more = partition({"tensor_parallel.partition_config.strict_mode=true"});
  BOOST_TEST(more.strict_mode);
  BOOST_TEST(!more.use_default_specs);
  BOOST_TEST_REQUIRE(more.specs.size() == 1U);
  BOOST_TEST(more.specs[0].patterns[0] == "c_fc");
  BOOST_TEST(partition({"tensor_parallel.partition_config.use_default_specs="}).use_default_specs);
  const auto whole = partition({"tensor_parallel.partition_config={strict_mode: true}"});
  BOOST_TEST(whole.specs.empty());
  BOOST_TEST(whole.use_default_specs);
}

BOOST_AUTO_TEST_CASE(paths_are_relative_to_the_file_and_overrides_to_the_current_folder) {
  const troupe::tests::scratch_folder f;
  std::filesystem::create_directory(f.path() / "sub");
  const auto file = f.write("sub/job.yaml", smallest_with("corpus.txt", "../corpus.txt") + "output: out\n");
  const auto l = check_ok(troupe::config::load(file));
  BOOST_TEST(l->config.file == file);
  BOOST_TEST(l->config.data.text == f.path() / "corpus.txt");
  BOOST_TEST(l->config.output == f.path() / "sub" / "out");
  const auto set = check_ok(troupe::config::load(file, {{"data.text=here.txt"}}));
  BOOST_TEST(set->config.data.text == std::filesystem::current_path() / "here.txt");
}

BOOST_AUTO_TEST_CASE(json_files_with_comments_load_too) {
  const std::string text = R"(// a job
{ "model": {"path": "gpt"}, /* where
  it lies */ "data": {"text": "c.txt"},
  "steps": 5, "train_batch_size": 4, "optimizer": {"type": "Adam", "params": {"betas": [0.8, 0.99], "eps": 1E-7}} })";
  const job_config c = loaded_config(text, {}, "j.json");
  BOOST_TEST(c.model.path == "/base/gpt");
  BOOST_TEST(c.model.hugging_face_json == "");
  BOOST_TEST(c.train_micro_batch_size_per_gpu == 4U);
  BOOST_TEST((c.optimizer.type == core::optimizer_type::adam));
  BOOST_TEST(c.optimizer.beta1 == 0.8);
  BOOST_TEST(c.optimizer.beta2 == 0.99);
  BOOST_TEST(c.optimizer.eps == 1e-7);
}

BOOST_AUTO_TEST_CASE(a_deepspeed_json_is_imported_and_the_file_wins_over_it) {
  const troupe::tests::scratch_folder f;
  f.write("ds.json", R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "gradient_cliping": 1,
  "zero_optimization": {"stage": 1, "reduce_bucket_size": 5e5}, "sparse_gradients": true})");
  const auto file = f.write("job.yaml", smallest + "deepspeed_config: ds.json\n");
  const auto l = troupe::config::load(file, {{"train_micro_batch_size_per_gpu=1"}});
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
  BOOST_TEST(l->config.zero_optimization.stage == 3U);
  BOOST_TEST(l->config.zero_optimization.reduce_bucket_size == 500'000U);
  BOOST_TEST(l->config.gradient_accumulation_steps == 8U);
  const std::string ds = (f.path() / "ds.json").string();
  BOOST_TEST(
      render(l->warnings) ==
      ds + ":1:63: warning: gradient_cliping: unknown key; the nearest known one is gradient_clipping\n" + ds +
          ":2:65: warning: sparse_gradients: no effect: gradients of embeddings are dense; DeepSpeed has dropped it\n");
  load_options strict;
  strict.strict = true;
  BOOST_TEST(!troupe::config::load(file, strict).has_value());
}

BOOST_AUTO_TEST_CASE(an_imported_file_may_have_its_keys_below_deepspeed_config) {
  const troupe::tests::scratch_folder f;
  const auto with = [&](const std::string& name, const std::string& text) {
    f.write(name, text);
    load_options strict;
    strict.strict = true;
    const std::string job = smallest_with(smallest.substr(smallest.find("zero_optimization")), "");
    return load_text(job + "deepspeed_config: " + name + "\n", "j.yaml", f.path(), strict);
  };
  const auto l = with("wrap.json",
                      R"({"deepspeed_config": {"zero_optimization": {"stage": 3}, "train_batch_size": 16},
  "gradient_clipping": 0.5})");
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
  BOOST_TEST(l->config.zero_optimization.stage == 3U);
  BOOST_TEST(l->config.train_batch_size == 16U);
  BOOST_TEST(l->config.gradient_clipping == 0.5);
  const auto trimmed = with("trimmed.yaml",
                            "deepspeed_config: {zero_stage: 3, gradient_clipping: 0.5, offload_optimizer_device: cpu}\n"
                            "mixed_precision: bf16\nnum_machines: 1\n");
  BOOST_TEST_REQUIRE(trimmed.has_value(), (trimmed ? std::string() : render(trimmed.error())));
  BOOST_TEST(trimmed->config.zero_optimization.stage == 3U);
  BOOST_TEST((trimmed->config.zero_optimization.offload_optimizer.device == offload_device::cpu));
  BOOST_TEST(trimmed->config.bf16.enabled);
  for (const char* text :
       {R"({"deepspeed_config": {"deepspeed_config": {"zero_optimization": {"stage": 3}}}})",
        R"({"deepspeed_config": {"deepspeed_config_file": "wrap.json"}})", R"({"deepspeed_config": "wrap.json"})"}) {
    const auto again = with("again.json", text);
    BOOST_TEST_REQUIRE(!again.has_value(), text);
    BOOST_TEST(
        render(again.error()).find("deepspeed_config: an imported file cannot import another") != std::string::npos,
        render(again.error()));
  }
}

BOOST_AUTO_TEST_CASE(an_override_of_deepspeed_config_replaces_the_file_and_the_mapping) {
  const troupe::tests::scratch_folder f;
  f.write("ds.json", R"({"gradient_clipping": 0.25})");
  const std::string other = f.write("other.json", R"({"steps_per_print": 7})").string();
  for (const char* form : {"ds.json", "{gradient_clipping: 0.25}", "{deepspeed_config_file: ds.json}"}) {
    const auto with = [&](std::vector<std::string> overrides) {
      const auto l = load_text(smallest + "deepspeed_config: " + form + "\n", "j.yaml", f.path(), {overrides});
      BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
      return l->config;
    };
    BOOST_TEST(with({}).gradient_clipping == 0.25, form);
    BOOST_TEST(with({"deepspeed_config=null"}).gradient_clipping == 1.0, form);
    BOOST_TEST(with({"deepspeed_config=" + other}).gradient_clipping == 1.0, form);
    BOOST_TEST(with({"deepspeed_config=" + other}).steps_per_print == 7U, form);
    BOOST_TEST(with({"deepspeed_config=null", "deepspeed_config=" + other}).steps_per_print == 7U, form);
  }
}

BOOST_AUTO_TEST_CASE(an_import_is_as_strict_as_deepspeed_where_deepspeed_is) {
  const troupe::tests::scratch_folder f;
  const auto file = f.write("job.yaml", smallest + "deepspeed_config: ds.json\n");
  f.write("ds.json", "{\"fp16\": {\"enabld\": true},\n \"fp16\": {}}");
  const std::string ds = (f.path() / "ds.json").string();
  const auto l = troupe::config::load(file);
  BOOST_TEST_REQUIRE(!l.has_value());
  BOOST_TEST(render(l.error()) ==
             ds + ":1:11: error: fp16.enabld: unknown key; the nearest known one is fp16.enabled\n" + ds +
                 ":2:2: error: fp16: given twice, first at line 1, column 2\n");
  std::filesystem::remove(f.path() / "ds.json");
  BOOST_TEST(render(troupe::config::load(file).error()) ==
             file.string() + ":9:19: error: deepspeed_config: " + ds + ": the file does not exist; check the path\n");
}

BOOST_AUTO_TEST_CASE(known_keys_without_effect_are_warned_about) {
  BOOST_TEST(
      warnings_of(smallest + "dump_state: true\nzero_allow_untested_optimizer: true\n"
                             "activation_checkpointing: {profile: true}\ncompile: {backend: x}\n") ==
      "j.yaml:9:1: warning: dump_state: no effect: `troupe config explain` and the run's folder show it\n"
      "j.yaml:10:1: warning: zero_allow_untested_optimizer: no effect: every optimizer here works with every stage\n"
      "j.yaml:11:28: warning: activation_checkpointing.profile: no effect: the trace shows every recomputation\n"
      "j.yaml:12:11: warning: compile.backend: no effect: nothing is compiled at run time\n");
  BOOST_TEST(warnings_of(smallest + "dump_state: false\naio: {block_size: 1048576}\n") == "");
  BOOST_TEST(warnings_of(smallest_with("stage: 3", "stage: 3, stage3_gather_fp16_weights_on_model_save: true")) ==
             "j.yaml:8:31: warning: zero_optimization.stage3_gather_16bit_weights_on_model_save: "
             "stage3_gather_fp16_weights_on_model_save is deprecated, write "
             "stage3_gather_16bit_weights_on_model_save\n");
  BOOST_TEST(
      warnings_of(smallest + "checkpoint: {load_universal: true, writer: {io_buffer_size: 1MiB}}\n") ==
      "j.yaml:9:14: warning: checkpoint.load_universal: no effect: every checkpoint is universal, and DeepSpeed's "
      "converted layout is recognised\n"
      "j.yaml:9:45: warning: checkpoint.writer.io_buffer_size: no effect: checkpoint.staging_bytes sets it\n");
}

BOOST_AUTO_TEST_CASE(checkpoints_are_described_by_one_section) {
  using troupe::config::checkpoint_section;
  const auto with = [](const std::string& keys) { return loaded_config(smallest + keys).checkpoint; };
  BOOST_TEST((!with("").is_on() && with("").asynchronous && with("").load.strict));
  const auto c = with(
      "checkpoint: {every_minutes: 0.5, asynchronous: false, staging_bytes: 1MiB, on_error: stop, when_busy: skip, "
      "retry_for: 2min, writer: {data_parallel: machine}, exclude_frozen_parameters: true, load: {path: before, tag: "
      "step-00000007, strict: false, "
      "optimizer_states: false}}\n");
  BOOST_TEST((c.is_on() && c.every_minutes == 0.5 && !c.asynchronous && c.staging_bytes == 1 << 20));
  BOOST_TEST((c.on_error == checkpoint_section::error_policy::stop));
  BOOST_TEST((c.when_busy == checkpoint_section::busy_policy::skip));
  BOOST_TEST((c.retry_for_s == 120 && with("").retry_for_s == 30));
  BOOST_TEST((c.staging_bytes_given && !with("").staging_bytes_given));
  BOOST_TEST((c.writing == checkpoint_section::writers::of_machine));
  BOOST_TEST((c.load.path.is_absolute() && c.load.path.filename() == "before" && c.load.tag == "step-00000007"));
  BOOST_TEST((c.exclude_frozen_parameters && !c.load.strict && !c.load.optimizer_states && !c.load.module_only));
}

BOOST_AUTO_TEST_CASE(a_type_brings_its_own_defaults) {
  const auto with = [](const std::string& optimizer) {
    return loaded_config(smallest_with("{type: AdamW, params: {lr: 1.0e-3}}", optimizer)).optimizer;
  };
  const auto adagrad = with("{type: Adagrad}");
  BOOST_TEST((adagrad.type == core::optimizer_type::adagrad && adagrad.lr == 0.01 && adagrad.eps == 1e-10));
  const auto muon = with("{type: Muon, params: {momentum: 0.9}}");
  BOOST_TEST((muon.lr == 0.02 && muon.momentum == 0.9 && muon.nesterov && muon.beta2 == 0.95 && muon.eps == 1e-10));
  BOOST_TEST((muon.adam_lr.value_or(0) == 3e-4 && !muon.muon_lr));
  BOOST_TEST(!with("{type: Muon, params: {lr: 0.1}}").adam_lr.has_value());
  const auto sgd = with("{type: SGD, params: {lr: auto}}");
  BOOST_TEST((sgd.lr == 1e-3 && sgd.momentum == 0 && !sgd.nesterov));
}

BOOST_AUTO_TEST_CASE(auto_lengths_of_curves_are_the_runs) {
  for (const std::string curve : {"WarmupDecayLR, params: {total_num_steps: auto, warmup_num_steps: 10}",
                                  "CosineAnnealingLR, params: {T_max: auto}"}) {
    BOOST_TEST_INFO_SCOPE(curve);
    const auto c = loaded_config(smallest + "scheduler: {type: " + curve + "}\n");
    BOOST_TEST(c.scheduler.total_num_steps + c.scheduler.t_max == 100U);
  }
  const auto of = [](const std::string& curve) {
    return loaded_config(smallest + "scheduler: {type: " + curve + "}\n").scheduler;
  };
  BOOST_TEST(of("CosineAnnealingLR, params: {T_max: auto, num_warmup_steps: 30}").t_max == 70U);
  const auto stages =
      of("warmup_stable_decay, params: {num_training_steps: auto, num_decay_steps: 20, decay_type: 1-sqrt}");
  BOOST_TEST(stages.num_training_steps == 100U);
  BOOST_TEST((stages.decay_type == core::decay_shape::one_minus_sqrt));
}

BOOST_AUTO_TEST_CASE(an_auto_rate_after_the_warm_up_is_the_optimizers) {
  const std::string curve = "{type: WarmupDecayLR, params: {total_num_steps: auto, warmup_num_steps: 10";
  const auto rate = [&](const std::string& rest) {
    return loaded_config(smallest_with("1.0e-3", "0.25") + "scheduler: " + curve + rest + "}}\n")
        .scheduler.warmup_max_lr;
  };
  BOOST_TEST(rate(", warmup_max_lr: auto").value_or(0) == 0.25);
  BOOST_TEST(rate("").value_or(0) == 0.001);
}

BOOST_AUTO_TEST_CASE(a_text_is_one_source_and_sources_are_listed_with_their_keys) {
  const auto short_form = loaded_config(smallest).data;
  BOOST_TEST_REQUIRE(short_form.sources.size() == 1U);
  BOOST_TEST((short_form.sources[0].text == "/base/corpus.txt" && short_form.sources[0].weight == 1 &&
              short_form.sources[0].text_key == "text"));
  const auto listed = loaded_config(smallest_with("{text: corpus.txt}",
                                                  "{text_key: body, sources: [{text: a.jsonl, weight: 3}, "
                                                  "{text: ../b.jsonl, text_key: c}]}"))
                          .data;
  BOOST_TEST_REQUIRE(listed.sources.size() == 2U);
  BOOST_TEST((listed.sources[0].text == "/base/a.jsonl" && listed.sources[0].weight == 3 &&
              listed.sources[0].text_key == "body"));
  BOOST_TEST((listed.sources[1].text == "/b.jsonl" && listed.sources[1].text_key == "c" && listed.text.empty()));
}

BOOST_AUTO_TEST_CASE(an_override_replaces_a_list_as_a_whole) {
  const auto l = load_text(smallest + "parameter_groups: [{match: a, lr: 1}, {match: b}]\n", "j.yaml", "/base",
                           {{"parameter_groups=[{match: c, trainable: false}]"}});
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
  BOOST_TEST_REQUIRE(l->config.parameter_groups.size() == 1U);
  const parameter_group& only = l->config.parameter_groups[0];
  BOOST_TEST((only.match == "c" && !only.lr && !only.trainable));
}

BOOST_AUTO_TEST_CASE(a_value_that_is_overridden_is_not_an_error_of_the_file) {
  const std::string text = smallest_with("stage: 3", "stage: 7, offload_optimizer: {device: gpu, pin_memory: false}");
  BOOST_TEST(errors_of(text).find("offload_optimizer.device: wanted one of none, cpu, nvme, got gpu") !=
             std::string::npos);
  const std::string stage = "zero_optimization.stage=2", offload = "zero_optimization.offload_optimizer";
  BOOST_TEST(warnings_of(text, {{stage, offload + ".device=none", offload + ".pin_memory=true"}}) == "");
  BOOST_TEST(warnings_of(text, {{stage, offload + "=null"}}) == "");
  BOOST_TEST(errors_of(text, {{offload + "=null"}}) ==
             "j.yaml:8:28: error: zero_optimization.stage: wanted an integer from 0 to 3, got 7\n");
  BOOST_TEST(errors_of(smallest, {{"steps=0", "steps=1"}}) == "");
}

BOOST_AUTO_TEST_CASE(a_tokenizer_is_bytes_or_an_existing_path) {
  const troupe::tests::scratch_folder f;
  f.write("t.model", "not looked at here");
  const auto file = f.write("job.yaml", smallest_with("{text: corpus.txt}", "{text: c.txt, tokenizer: t.model}"));
  const auto l = troupe::config::load(file);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
  BOOST_TEST((l->config.data.tokenizer == "t.model" && l->config.data.tokenizer_path == f.path() / "t.model"));
  BOOST_TEST((l->config.data.tokenizer_given && !loaded_config(smallest).data.tokenizer_given));
  BOOST_TEST(
      loaded_config(smallest_with("{text: corpus.txt}", "{text: c.txt, tokenizer: bytes}")).data.tokenizer_given);
  BOOST_TEST(
      (loaded_config(smallest).data.tokenizer == "bytes" && loaded_config(smallest).data.tokenizer_path.empty()));
}

BOOST_AUTO_TEST_CASE(aliases_and_empty_sections_are_fine) {
  const job_config c = loaded_config(smallest_with("seed: 1", "seed: &n 3\nfp16:\ntelemetry: {trace_steps: *n}"));
  BOOST_TEST(c.telemetry.trace_steps == 3U);
}

BOOST_AUTO_TEST_CASE(a_pipeline_is_read_with_its_defaults) {
  const job_config none = loaded_config(smallest);
  BOOST_TEST(none.parallel.pipeline == 1U);
  BOOST_TEST(none.pipeline.schedule == "1f1b");
  BOOST_TEST(none.pipeline.partition == "best");
  BOOST_TEST((none.pipeline.chunks == 0 && !none.pipeline.any_order && none.pipeline.first_units.empty()));
  BOOST_TEST((none.tied == tied_gradients::automatic));

  const job_config c = loaded_config(
      smallest_with("data: 2", "data: 2, pipeline: 3") +
      "pipeline: {schedule: own/order.csv, chunks: 2, partition: [0, 3, 5], any_order: true, memory_limit: 1GiB}\n"
      "tied_gradients: per_use\n");
  BOOST_TEST(c.parallel.ranks() == 6U);
  BOOST_TEST(c.train_batch_size == 8U);  // only data ranks multiply the batch size
  BOOST_TEST(c.pipeline.schedule_file == "/base/own/order.csv");
  BOOST_TEST((c.pipeline.first_units == std::vector<uint32_t>{0, 3, 5}));
  BOOST_TEST(c.pipeline.partition == "");
  BOOST_TEST((c.pipeline.chunks == 2 && c.pipeline.any_order));
  BOOST_TEST(c.pipeline.memory_limit == uint64_t{1} << 30);
  BOOST_TEST((c.tied == tied_gradients::per_use));

  BOOST_TEST(loaded_config(smallest + "pipeline: {partition: Uniform}\n").pipeline.partition == "uniform");
  BOOST_TEST(loaded_config(smallest + "pipeline: {partition: 'type:Block'}\n").pipeline.partition == "type:Block");
  BOOST_TEST(loaded_config(smallest_with("data: 2", "pipeline: 2, ranks: 8")).parallel.data == 4U);
  BOOST_TEST(
      loaded_config(smallest + "pipeline: {activation_checkpoint_interval: 1}\n").activation_checkpointing.enabled);
}

BOOST_AUTO_TEST_CASE(a_pipeline_survives_the_effective_yaml) {
  const auto first = check_ok(
      load_text(smallest + "pipeline: {schedule: a b.csv, partition: [0, 3], chunks: 2}\n", "j.yaml", "/base"));
  const job_config again = loaded_config(effective_yaml(*first));
  BOOST_TEST(again.pipeline.schedule_file == "/base/a b.csv");
  BOOST_TEST((again.pipeline.first_units == std::vector<uint32_t>{0, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
