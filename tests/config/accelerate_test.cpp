// Tests the YAML files of Hugging Face Accelerate (FSDP, DeepSpeed and plain data parallelism), which are translated to
// DeepSpeed's keys, alone and imported by a job file.
#include <boost/test/unit_test.hpp>

#include "config/explain.hpp"
#include "tests/config/text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(accelerate)

using namespace troupe::config;
using troupe::tests::scratch_folder;

namespace {

const load_options alone{.overrides = {}, .strict = false, .steps = {}, .read_as = reading::either};

/// Returns a file as `accelerate config` writes it for FSDP, with `lines` in its FSDP section.
std::string fsdp(const std::string& lines, const std::string& others = "") {
  std::string out =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
      "num_machines: 1\nnum_processes: 2\n" +
      others + "fsdp_config:\n";
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find(';', at);
    out += "  " + lines.substr(at, end - at) + "\n";
    at = end == std::string::npos ? lines.size() : end + 1;
  }
  return out;
}

loaded accepted(const std::string& text) {
  const auto l = load_text(text, "fsdp.yaml", "/base", alone);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? "" : render(l.error())));
  return *l;
}

void refused(const std::string& text, const std::string& why) {
  const auto said = errors_of(text, alone, "fsdp.yaml");
  BOOST_TEST(said.find(why) != std::string::npos, said);
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_answer_for_fsdp_2_is_zero_3_or_2) {
  const auto l =
      accepted(fsdp("fsdp_version: 2;fsdp_reshard_after_forward: true;"
                    "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP;fsdp_state_dict_type: SHARDED_STATE_DICT"));
  BOOST_TEST(l.config.zero_optimization.stage == 3U);
  BOOST_TEST(l.config.parallel.data == 2U);
  BOOST_TEST(l.config.bf16.enabled);
  BOOST_TEST(render(l.warnings) == "");
  BOOST_TEST(explain_text(l, shown_keys::given).find("zero_optimization.stage = 3  (fsdp.yaml:8:") !=
             std::string::npos);
  BOOST_TEST(accepted(fsdp("fsdp_version: 2;fsdp_reshard_after_forward: false")).config.zero_optimization.stage == 2U);
  BOOST_TEST(accepted(fsdp("fsdp_version: 2")).config.zero_optimization.stage == 3U);
  // PyTorch reads a number as the ranks that keep a second copy, not as one of version 1's strategies.
  for (const std::string number : {"2", "3"})
    refused(fsdp("fsdp_version: 2;fsdp_reshard_after_forward: " + number), "or true or false, got " + number);
  BOOST_TEST(accepted("distributed_type: FSDP\nnum_processes: 2\n").config.zero_optimization.stage == 3U);
}

BOOST_AUTO_TEST_CASE(a_sharding_strategy_of_fsdp_1_has_a_name_or_a_number) {
  for (const auto& [said, stage] : std::vector<std::pair<std::string, uint32_t>>{{"FULL_SHARD", 3},
                                                                                 {"full_shard", 3},
                                                                                 {"SHARD_GRAD_OP", 2},
                                                                                 {"NO_SHARD", 0},
                                                                                 {"HYBRID_SHARD", 3},
                                                                                 {"1", 3},
                                                                                 {"2", 2},
                                                                                 {"3", 0}}) {
    BOOST_TEST(accepted(fsdp("fsdp_sharding_strategy: " + said)).config.zero_optimization.stage == stage, said);
    BOOST_TEST(accepted(fsdp("sharding_strategy: " + said)).config.zero_optimization.stage == stage, said);
  }
  refused(fsdp("fsdp_sharding_strategy: HYBRID_SHARD_ZERO2"),
          "fsdp.yaml:7:3: error: fsdp_config.fsdp_sharding_strategy: wanted FULL_SHARD, SHARD_GRAD_OP, NO_SHARD or "
          "HYBRID_SHARD (1 to 4), or true or false, got HYBRID_SHARD_ZERO2");
  refused(fsdp("fsdp_sharding_strategy: 7"), "got 7");
}

BOOST_AUTO_TEST_CASE(hybrid_shards_over_machines_are_those_of_mics) {
  std::string text = fsdp("fsdp_sharding_strategy: HYBRID_SHARD");
  text.replace(text.find("num_machines: 1\nnum_processes: 2"), 32, "num_machines: 2\nnum_processes: 8");
  const auto l = accepted(text);
  BOOST_TEST(l.config.zero_optimization.stage == 3U);
  BOOST_TEST(explain_text(l, shown_keys::given).find("zero_optimization.mics_shard_size = 4 ") != std::string::npos);
  text.replace(text.find("num_processes: 8"), 16, "num_processes: 7");
  refused(text, "HYBRID_SHARD requires the same number of processes on each of 2 machines, got 7 processes in all");
}

BOOST_AUTO_TEST_CASE(offload_and_recomputation_of_fsdp_act) {
  const auto l =
      accepted(fsdp("fsdp_reshard_after_forward: true;fsdp_offload_params: true;"
                    "fsdp_activation_checkpointing: true"));
  BOOST_TEST(l.config.activation_checkpointing.enabled);
  const auto told = explain_text(l, shown_keys::given);
  BOOST_TEST(told.find("zero_optimization.offload_optimizer.device = cpu") != std::string::npos, told);
  BOOST_TEST(told.find("zero_optimization.offload_param.device = cpu") != std::string::npos, told);
  refused(fsdp("fsdp_sharding_strategy: NO_SHARD;fsdp_offload_params: true"), "cannot be combined with NO_SHARD");
  refused(fsdp("fsdp_offload_params: perhaps"), "fsdp_config.fsdp_offload_params: wanted true or false, got perhaps");
}

BOOST_AUTO_TEST_CASE(kinds_that_have_no_words_here_are_refused_by_name) {
  refused("distributed_type: MEGATRON_LM\nmegatron_lm_config: {megatron_lm_tp_degree: 2}\n",
          "distributed_type: MEGATRON_LM is not read");
  refused("distributed_type: XLA\n", "distributed_type: wanted FSDP, DEEPSPEED, MULTI_GPU");
  refused("distributed_type: FSDP\nmixed_precision: fp8\n", "mixed_precision: wanted no, fp16 or bf16, got fp8");
  refused(fsdp("fsdp_version: 2", "parallelism_config: {parallelism_config_tp_size: 2}\n"),
          "parallelism_config: is not read");
  refused(fsdp("fsdp_version: 3"), "fsdp_config.fsdp_version: wanted 1 or 2, got 3");
  refused(fsdp("fsdp_ignored_modules: x"), "fsdp_config.fsdp_ignored_modules: is not read, and may change a run");
}

BOOST_AUTO_TEST_CASE(plain_data_ranks_and_sections_of_another_kind_are_told_apart) {
  const auto l = accepted(
      "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: 'no'\n"
      "num_processes: 4\ndowncast_bf16: 'no'\nfsdp_config: {}\ndeepspeed_config: {}\n"
      "dynamo_config: {}\nmegatron_lm_config: {}\ngpu_ids: all\n");
  BOOST_TEST(l.config.zero_optimization.stage == 0U);
  BOOST_TEST(l.config.parallel.data == 4U);
  BOOST_TEST(render(l.warnings) == "");
  const auto both = accepted(fsdp("fsdp_sharding_strategy: 2", "deepspeed_config: {zero_stage: 3}\n"));
  BOOST_TEST(both.config.zero_optimization.stage == 2U);
  BOOST_TEST(render(both.warnings).find("deepspeed_config: no effect: distributed_type is FSDP") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_job_imports_an_answer_of_accelerate_as_it_imports_deepspeeds_file) {
  scratch_folder at;
  at.write("fsdp.yaml", fsdp("fsdp_version: 2;fsdp_reshard_after_forward: true"));
  at.write("ds.yaml",
           "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {zero_stage: 2, "
           "gradient_accumulation_steps: 4}\n");
  at.write("named.yaml", "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\n");
  at.write("ds.json", R"({"zero_optimization": {"stage": 1}})");
  at.write("round.yaml", "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: round.yaml}\n");
  const std::string job =
      "model: {model_type: gpt2, n_layer: 1, n_embd: 16, n_head: 2, n_positions: 16, vocab_size: 256}\n"
      "data: {text: corpus.txt}\nsteps: 2\ntrain_micro_batch_size_per_gpu: 2\ndeepspeed_config: ";
  const auto with = [&](const std::string& file) { return load_text(job + file + "\n", "j.yaml", at.path(), {}); };
  const auto l = with("fsdp.yaml");
  BOOST_TEST_REQUIRE(l.has_value(), (l ? "" : render(l.error())));
  BOOST_TEST(l->config.zero_optimization.stage == 3U);
  BOOST_TEST(l->config.parallel.data == 2U);
  BOOST_TEST(l->config.bf16.enabled);
  BOOST_TEST(render(l->warnings) == "");
  const auto ds = with("ds.yaml");
  BOOST_TEST_REQUIRE(ds.has_value(), (ds ? "" : render(ds.error())));
  BOOST_TEST(ds->config.zero_optimization.stage == 2U);
  BOOST_TEST(ds->config.gradient_accumulation_steps == 4U);
  BOOST_TEST(with("named.yaml")->config.zero_optimization.stage == 1U);
  const auto round = with("round.yaml");
  BOOST_TEST_REQUIRE(!round.has_value());
  BOOST_TEST(render(round.error()).find("wanted a DeepSpeed configuration file, got one of Accelerate") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
