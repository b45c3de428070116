// Tests runs that resume from other formats: DeepSpeed's checkpoint folders at any degrees, Hugging Face's weights, and
// Troupe's own checkpoints in another precision or only in part.
#include <fmt/format.h>

#include <fstream>
#include <map>

#include "checkpoint/convert/distributed_export.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "formats/source/state_dict.hpp"
#include "tests/parity/run_result.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(resume_formats)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

struct opened {
  std::unique_ptr<actors::session> session;
  std::vector<std::string> warnings;

  [[nodiscard]] bool warned(const std::string& words) const {
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](const std::string& w) { return w.find(words) != std::string::npos; });
  }
};

core::result<opened> try_resume(std::shared_ptr<const config::job_config> config, const fs::path& from,
                                actors::load_options load = {}) {
  opened out;
  auto warnings = std::make_shared<std::vector<std::string>>();
  actors::session_hooks hooks{.on_warning = [warnings](const std::string& line) { warnings->push_back(line); }};
  auto s = actors::session::open(
      {.config = std::move(config), .hooks = std::move(hooks), .resume = from, .load = std::move(load)});
  if (!s) return core::fail(s.error());
  out.session = std::move(*s);
  out.warnings = *warnings;
  return out;
}

opened resume(std::shared_ptr<const config::job_config> config, const fs::path& from, actors::load_options load = {}) {
  auto out = try_resume(std::move(config), from, std::move(load));
  BOOST_TEST_REQUIRE(out.has_value(), (out ? "" : out.error().text));
  return std::move(*out);
}

void check_refused(const core::result<opened>& r, error_kind kind, const std::string& words) {
  BOOST_TEST_REQUIRE(!r.has_value());
  BOOST_TEST((r.error().kind == kind));
  BOOST_TEST(r.error().text.find(words) != std::string::npos, r.error().text);
}

std::vector<double> losses_of(actors::session& s, uint64_t steps) {
  std::vector<double> out;
  for (uint64_t i = 0; i < steps; ++i) out.push_back(step_of(s).loss);
  return out;
}

std::vector<std::vector<float>> weights_of(const actors::session& s) {
  std::vector<std::vector<float>> out;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) out.push_back(parameter_of(s, q));
  return out;
}
std::vector<std::vector<float>> moments_of(const actors::session& s) {
  std::vector<std::vector<float>> out;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) out.push_back(moment_of(s, q, 0));
  return out;
}
bool all_zero(const std::vector<std::vector<float>>& all) {
  return std::all_of(all.begin(), all.end(),
                     [](const auto& v) { return std::all_of(v.begin(), v.end(), [](float x) { return x == 0; }); });
}

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed_gpt2";

/// The model that tests/peer/troupe_resumes_deepspeed.py trains.
const std::string peers_model =
    "model: {model_type: gpt2, n_layer: 1, n_embd: 8, n_head: 2, n_positions: 8, vocab_size: 128, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";
settings peers_job(int ranks, int stage) {
  return {fmt::format("parallel.data={}", ranks),
          fmt::format("zero_optimization.stage={}", stage),
          fmt::format("train_micro_batch_size_per_gpu={}", 6 / ranks),
          "data.sequence_length=8",
          "gradient_clipping=1.0",
          "optimizer={type: AdamW, params: {lr: 3.0e-3, betas: [0.9, 0.95], weight_decay: 0.1}}",
          "scheduler={type: WarmupLR, params: {warmup_min_lr: 1.0e-4, warmup_max_lr: 3.0e-3, warmup_num_steps: 10, "
          "warmup_type: linear}}",
          "zero_optimization.stage3_param_persistence_threshold=0"};
}

/// Reads the three losses that another program computed after its checkpoint; a script in tests/peer wrote them to
/// `file`.
std::vector<double> losses_in(const fs::path& file) {
  std::vector<double> out(3);
  std::ifstream in(file);
  for (auto& loss : out) in >> loss;
  BOOST_TEST_REQUIRE(in.good(), file.string());
  return out;
}
void check_losses(const std::vector<double>& got, const std::vector<double>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i)
    BOOST_TEST(std::abs(got[i] - wanted[i]) <= 2e-6 * wanted[i], got[i] << " and " << wanted[i]);
}

struct place {  ///< the degrees with which a run resumes
  int ranks, stage, tensor = 1;
};

const fs::path distributed = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/distributed";

const fs::path trainers = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/trainer";

/// The models that tests/peer/troupe_resumes_distributed.py and troupe_resumes_trainer.py train.
const std::map<std::string, std::string> distributed_models{
    {"gpt2_fsdp", peers_model},
    {"llama_2d",
     "model: {model_type: llama, num_hidden_layers: 1, hidden_size: 8, intermediate_size: 12, num_attention_heads: 4, "
     "num_key_value_heads: 2, max_position_embeddings: 8, vocab_size: 128}\n"}};
/// Returns settings with the optimizer of tests/peer/troupe_resumes_distributed.py, and without a learning-rate
/// schedule.
settings their_job(int ranks, int stage, int tensor) {
  return {fmt::format("parallel.data={}", ranks),
          fmt::format("parallel.tensor={}", tensor),
          fmt::format("zero_optimization.stage={}", stage),
          fmt::format("train_micro_batch_size_per_gpu={}", 6 / ranks),
          "data.sequence_length=8",
          "gradient_clipping=0",
          "optimizer={type: AdamW, params: {lr: 3.0e-3, betas: [0.9, 0.95], weight_decay: 0.1}}"};
}

std::vector<float> rounded_to_bf16(std::vector<float> values) {
  for (auto& x : values) {
    const auto bits = std::bit_cast<uint32_t>(x);
    x = std::bit_cast<float>((bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U);
  }
  return values;
}

actors::save_request request_of(const fs::path& root, std::string client_state = "null") {
  actors::save_request out;
  out.root = root;
  out.client_state = std::move(client_state);
  return out;
}

/// Owns a small run that is saved after two steps.
struct saved_run {
  small_job job;
  fs::path folder;
  std::vector<std::vector<float>> weights, moments;
  std::vector<double> next;  ///< losses of the two steps after the checkpoint

  explicit saved_run(const settings& set = {}) {
    auto s = job.open(base() + set);
    losses_of(*s, 2);
    folder = job.folder() / "saved";
    const auto did = s->save(request_of(folder, R"({"note": "kept"})"));
    BOOST_TEST_REQUIRE(did.has_value(), (did ? "" : did.error().text));
    weights = weights_of(*s);
    moments = moments_of(*s);
    next = losses_of(*s, 2);
  }
  static settings base() { return {"parallel.data=2", "zero_optimization.stage=2"}; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(runs_resume_from_deepspeed_folders_at_any_degrees_with_deepspeeds_losses) {
  const small_job job(peers_model, scratch_folder::read(fixtures / "corpus.txt"));
  const std::vector<place> places{{1, 0}, {1, 2}, {2, 1}, {2, 3}, {3, 0}, {3, 3}, {1, 2, 2}, {2, 3, 2}};
  for (const std::string name : {"stage1_bf16", "stage2_fp32", "stage3_fp32"}) {
    const bool bf16 = name.ends_with("bf16");
    std::vector<double> wanted(3);
    std::ifstream in(fixtures / (name + ".losses"));
    for (auto& loss : wanted) in >> loss;
    BOOST_TEST_REQUIRE(in.good());
    std::map<std::pair<int, int>, std::vector<double>> at_ranks;
    for (const auto& [ranks, stage, tensor] : places)
      BOOST_TEST_CONTEXT(name << " on " << ranks << " x tensor " << tensor << " ranks at stage " << stage) {
        const auto set = peers_job(ranks, stage) + settings{fmt::format("parallel.tensor={}", tensor)} +
                         (bf16 ? settings{"bf16.enabled=true"} : settings{});
        auto run = resume(job.config(set), fixtures / name);
        BOOST_TEST(run.session->steps_done() == 3U);
        BOOST_TEST(run.warned("does not say its seed"));
        BOOST_TEST(run.warnings.size() == 1U);
        const auto got = losses_of(*run.session, 3);
        for (size_t i = 0; i < 3; ++i)
          BOOST_TEST(std::abs(got[i] - wanted[i]) <= (bf16 ? 2e-3 : 2e-6) * wanted[i], got[i] << " and " << wanted[i]);
        const auto [first, fresh] = at_ranks.try_emplace({ranks, tensor}, got);
        BOOST_TEST((fresh || first->second == got));
      }
  }
}

BOOST_AUTO_TEST_CASE(runs_resume_from_deepspeeds_pipelines_with_deepspeeds_losses) {
  const small_job job(peers_model, scratch_folder::read(fixtures / "corpus.txt"));
  std::vector<double> wanted(3);
  std::ifstream in(fixtures / "pipeline_fp32.losses");
  for (auto& loss : wanted) in >> loss;
  BOOST_TEST_REQUIRE(in.good());
  job.folder().write("names.yaml", R"(
layers: {1: transformer.wpe., 2: transformer.h.0., 3: transformer.ln_f.}
names: {tied_modules\.embed\.weight: transformer.wte.weight}
)");
  const auto stages = [](int ranks, int micro_batches, const std::string& schedule) {
    return settings{fmt::format("parallel.pipeline={}", ranks), "pipeline.schedule=" + schedule,
                    fmt::format("gradient_accumulation_steps={}", micro_batches),
                    fmt::format("train_micro_batch_size_per_gpu={}", 6 / micro_batches)};
  };
  const auto map = job.folder() / "names.yaml";
  const std::vector<std::pair<settings, fs::path>> cuts{{peers_job(2, 1), {}},
                                                        {peers_job(2, 1), map},
                                                        {peers_job(1, 0) + stages(2, 2, "1f1b"), map},
                                                        {peers_job(1, 1) + settings{"parallel.tensor=2"}, {}},
                                                        {peers_job(1, 3) + stages(3, 3, "zb_h1"), {}}};
  for (const auto& [set, names] : cuts) BOOST_TEST_CONTEXT(text_of(set)) {
      auto run = resume(job.config(set), fixtures / "pipeline_fp32", {.map = names});
      BOOST_TEST(run.session->steps_done() == 3U);
      BOOST_TEST(run.session->client_state() == R"({"note":"kept"})");
      const auto got = losses_of(*run.session, 3);
      for (size_t i = 0; i < 3; ++i)
        BOOST_TEST(std::abs(got[i] - wanted[i]) <= 2e-6 * wanted[i], got[i] << " and " << wanted[i]);
    }
}

BOOST_AUTO_TEST_CASE(runs_resume_from_folders_of_torch_distributed_checkpoint_with_pytorchs_losses) {
  for (const auto& [name, model] : distributed_models) {
    const small_job job(model, scratch_folder::read(distributed / "corpus.txt"));
    const auto wanted = losses_in(distributed / (name + ".losses"));
    for (const auto& [ranks, stage, tensor] : std::vector<place>{{1, 0}, {2, 3}, {3, 1}, {1, 2, 2}})
      BOOST_TEST_CONTEXT(name << " on " << ranks << " x tensor " << tensor << " ranks at stage " << stage) {
        auto run = resume(job.config(their_job(ranks, stage, tensor)), distributed / name);
        BOOST_TEST(run.session->steps_done() == 3U);
        BOOST_TEST(run.warned("(PyTorch distributed) does not say its seed"));
        BOOST_TEST(run.warnings.size() == 1U);
        check_losses(losses_of(*run.session, 3), wanted);
      }
  }
}

BOOST_AUTO_TEST_CASE(runs_resume_from_folders_of_trainer_and_accelerate_with_their_losses) {
  for (const std::string name :
       {"trainer_gpt2", "trainer_llama", "trainer_llama_frozen", "accelerate_gpt2", "accelerate_llama"}) {
    const bool is_trainers = name.starts_with("trainer");
    const small_job job(name.ends_with("gpt2") ? peers_model : distributed_models.at("llama_2d"),
                        scratch_folder::read(trainers / "corpus.txt"));
    const auto wanted = losses_in(trainers / (name + ".losses"));
    settings set;
    if (is_trainers) set = {"gradient_clipping=1.0", "parameter_groups=[{match: 'bias|norm|ln_', weight_decay: 0}]"};
    if (name.ends_with("frozen"))
      set.back() = "parameter_groups=[{match: norm, weight_decay: 0}, {match: embed_tokens, trainable: false}]";
    for (const auto& [ranks, stage, tensor] : std::vector<place>{{1, 0}, {2, 3}, {3, 1}, {1, 2, 2}})
      BOOST_TEST_CONTEXT(name << " on " << ranks << " x tensor " << tensor << " ranks at stage " << stage) {
        auto run = resume(job.config(their_job(ranks, stage, tensor) + set), trainers / name);
        BOOST_TEST(run.session->steps_done() == 3U);
        BOOST_TEST(run.warned("exp_avg, exp_avg_sq of"));
        BOOST_TEST(run.warned("does not say its seed"));
        BOOST_TEST(run.warnings.size() == 2U);
        check_losses(losses_of(*run.session, 3), wanted);
      }
  }
}

BOOST_AUTO_TEST_CASE(momentum_whose_updates_nobody_counted_is_used_where_the_count_changes_nothing) {
  const small_job job(distributed_models.at("llama_2d"), scratch_folder::read(trainers / "corpus.txt"));
  const auto wanted = losses_in(trainers / "accelerate_llama_sgd.losses");
  for (const auto& [ranks, stage, tensor] : std::vector<place>{{1, 0}, {2, 3}, {1, 2, 2}}) {
    const auto set = their_job(ranks, stage, tensor);
    auto of_sgd = set;
    of_sgd.back() = "optimizer={type: SGD, params: {lr: 3.0e-3, momentum: 0.9, weight_decay: 0}}";
    auto run = resume(job.config(of_sgd), trainers / "accelerate_llama_sgd");
    BOOST_TEST(run.session->steps_done() == 0U);
    BOOST_TEST(run.warned("does not say its steps: the run begins at step 0 with its weights and its optimizer's"));
    BOOST_TEST(!run.warned("holds weights alone"));
    BOOST_TEST(run.warnings.size() == 2U);
    check_losses(losses_of(*run.session, 3), wanted);
    auto adam = resume(job.config(set), trainers / "accelerate_llama_sgd");
    BOOST_TEST(adam.session->steps_done() == 0U);
    BOOST_TEST(adam.warned("does not say how many updates its optimizer did, which this run's optimizer needs"));
    BOOST_TEST(!adam.warned("holds weights alone"));
    BOOST_TEST(all_zero(moments_of(*adam.session)));
    BOOST_TEST(same_bits(
        weights_of(*adam.session),
        weights_of(
            *resume(job.config(set), trainers / "accelerate_llama_sgd", {.load_optimizer_states = false}).session)));
  }
}

BOOST_AUTO_TEST_CASE(an_optimizer_of_another_model_is_refused_by_name_and_can_be_left_out) {
  const scratch_folder at;
  fs::copy(trainers / "trainer_gpt2/checkpoint-3", at / "ck");
  fs::copy_file(trainers / "trainer_llama/checkpoint-3/optimizer.pt", at / "ck/optimizer.pt",
                fs::copy_options::overwrite_existing);
  const small_job job(peers_model, scratch_folder::read(trainers / "corpus.txt"));
  const auto config = job.config(their_job(1, 0, 1));
  check_refused(try_resume(config, at / "ck"), error_kind::mismatch, "(--no-load-optimizer-states)");
  check_refused(try_resume(config, at / "ck"), error_kind::mismatch, "6 and 10 parameters were wanted in its groups");
  auto without = resume(config, at / "ck", {.load_optimizer_states = false});
  BOOST_TEST(without.session->steps_done() == 3U);
  BOOST_TEST(without.warned("the optimizer's states are not imported: the options ask for none"));
  BOOST_TEST(all_zero(moments_of(*without.session)));
}

BOOST_AUTO_TEST_CASE(a_run_resumes_in_another_precision) {
  const saved_run fp32;
  const auto narrow = resume(fp32.job.config(saved_run::base() + settings{"bf16.enabled=true"}), fp32.folder);
  BOOST_TEST(same_bits(weights_of(*narrow.session), fp32.weights));  // master weights remain fp32
  BOOST_TEST(same_bits(moments_of(*narrow.session), fp32.moments));
  const auto losses = losses_of(*narrow.session, 2);
  for (size_t i = 0; i < 2; ++i) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(std::abs(losses[i] - fp32.next[i]) < 0.05);

  const saved_run bf16({"bf16.enabled=true"});
  const auto wide = resume(bf16.job.config({"parallel.data=1", "train_micro_batch_size_per_gpu=4"}), bf16.folder);
  BOOST_TEST(same_bits(weights_of(*wide.session), bf16.weights));
  BOOST_TEST(same_bits(moments_of(*wide.session), bf16.moments));
  const auto wider = losses_of(*wide.session, 2);
  for (size_t i = 0; i < 2; ++i) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(std::abs(wider[i] - bf16.next[i]) < 0.05);
}

BOOST_AUTO_TEST_CASE(each_load_option_loads_the_parts_that_its_table_names) {
  const saved_run saved({"bf16.enabled=true",
                         "scheduler={type: WarmupLR, params: {warmup_min_lr: 1.0e-4, "
                         "warmup_max_lr: 1.0e-2, warmup_num_steps: 50, warmup_type: linear}}"});
  const auto config = saved.job.config(saved_run::base() +
                                       settings{"bf16.enabled=true",
                                                "scheduler={type: WarmupLR, params: {warmup_min_lr: 1.0e-4, "
                                                "warmup_max_lr: 1.0e-2, warmup_num_steps: 50, warmup_type: linear}}"});
  auto rounded = saved.weights;
  for (auto& v : rounded) v = rounded_to_bf16(v);
  BOOST_TEST(!same_bits(rounded, saved.weights));
  double usual_lr = 0, first_lr = 0;
  {
    auto all = resume(config, saved.folder);
    BOOST_TEST(same_bits(weights_of(*all.session), saved.weights));
    BOOST_TEST(same_bits(moments_of(*all.session), saved.moments));
    BOOST_TEST(all.session->client_state() == R"({"note": "kept"})");
    const auto step = step_of(*all.session);
    BOOST_TEST(step.step == 3U);
    BOOST_TEST(step.loss == saved.next[0]);
    usual_lr = step.lr;
    BOOST_TEST(all.warnings.empty());
  }
  {
    auto module = resume(config, saved.folder, {.load_module_only = true});
    BOOST_TEST(module.session->steps_done() == 0U);
    BOOST_TEST(same_bits(weights_of(*module.session), rounded));
    BOOST_TEST(all_zero(moments_of(*module.session)));
    BOOST_TEST(module.session->client_state() == "null");
    first_lr = step_of(*module.session).lr;
    BOOST_TEST(first_lr < usual_lr);
  }
  {
    auto without = resume(config, saved.folder, {.load_optimizer_states = false});
    BOOST_TEST(same_bits(weights_of(*without.session), rounded));
    BOOST_TEST(all_zero(moments_of(*without.session)));
    const auto step = step_of(*without.session);
    BOOST_TEST(step.step == 3U);
    BOOST_TEST(step.lr == usual_lr);
    // A run that loaded only parts of a checkpoint can save, and its own checkpoint needs no options to resume.
    const auto again = saved.job.folder() / "again";
    BOOST_TEST_REQUIRE(without.session->save(request_of(again)).has_value());
    auto later = resume(config, again);
    const auto wanted = step_of(*without.session), got = step_of(*later.session);
    BOOST_TEST(got.lr == wanted.lr);
    BOOST_TEST(got.loss == wanted.loss);
    BOOST_TEST(same_bits(weights_of(*later.session), weights_of(*without.session)));
  }
  {
    auto schedule = resume(config, saved.folder, {.load_lr_scheduler_states = false});
    BOOST_TEST(same_bits(weights_of(*schedule.session), saved.weights));
    const auto step = step_of(*schedule.session);
    BOOST_TEST(step.step == 3U);
    BOOST_TEST(step.lr == first_lr);
  }
  {
    auto narrow = resume(config, saved.folder, {.load_from_fp32_weights = false, .pipeline_loading_checkpoint = true});
    BOOST_TEST(same_bits(weights_of(*narrow.session), rounded));
    BOOST_TEST(same_bits(moments_of(*narrow.session), saved.moments));
  }
}

BOOST_AUTO_TEST_CASE(a_moment_of_another_shape_is_refused_with_both_shapes) {
  const saved_run saved;
  auto source = checkpoint::open_source(saved.folder);
  BOOST_TEST_REQUIRE(source.has_value());
  for (auto& t : source->tensors)
    if (t.name == "transformer.ln_f.bias" && t.moment == "exp_avg") t.shape = {16, 2};
  const auto folder = saved.job.folder() / "dcp";
  fs::create_directory(folder);
  BOOST_TEST_REQUIRE(checkpoint::write_distributed_folder(*source, folder, {.groups = {{}}}).has_value());
  check_refused(try_resume(saved.job.config(saved_run::base()), folder), error_kind::mismatch,
                "(moment exp_avg) is not read (left out: 1 states of an optimizer, such as "
                "'optim.state.transformer.ln_f.bias.exp_avg' with the shape [16, 2], wanted [32], the shape of its "
                "parameter); set checkpoint.load.optimizer_states: false");
}

BOOST_AUTO_TEST_CASE(models_that_do_not_match_are_refused_with_what_was_wanted_and_found) {
  const saved_run saved;
  const std::string wider_text =
      "model: {model_type: gpt2, n_layer: 6, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 100}\n";
  const std::string deeper_text =
      "model: {model_type: gpt2, n_layer: 7, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n";
  const std::string shallow_text =
      "model: {model_type: gpt2, n_layer: 5, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n";
  const small_job wider(wider_text), deeper(deeper_text), shallow(shallow_text);
  check_refused(try_resume(wider.config(saved_run::base()), saved.folder), error_kind::mismatch,
                "parameter 'transformer.wte.weight': wanted [100, 32], found [96, 32]");
  check_refused(try_resume(deeper.config(saved_run::base()), saved.folder), error_kind::mismatch,
                "parameter 'transformer.h.6.ln_1.weight', [32], is missing in the checkpoint");
  check_refused(try_resume(shallow.config(saved_run::base()), saved.folder), error_kind::mismatch,
                "holds 12 parameters that this model does not have, such as transformer.h.5.");
  check_refused(try_resume(saved.job.config(saved_run::base() + settings{"seed=8"}), saved.folder),
                error_kind::mismatch, "seed is 8, was 7");
  check_refused(try_resume(saved.job.config({"train_micro_batch_size_per_gpu=3"}), saved.folder), error_kind::mismatch,
                "train_batch_size is 3, was ");
  check_refused(try_resume(saved.job.config(saved_run::base()), saved.folder, {.tag = "step-00000009"}),
                error_kind::bad_input, "step-00000009");

  auto generous = resume(deeper.config(saved_run::base()), saved.folder, {.load_module_strict = false});
  BOOST_TEST(generous.warned("12 parameters keep their first values, as transformer.h.6."));
  BOOST_TEST(same_bits({parameter_of(*generous.session, 0)}, {saved.weights[0]}));
  auto smaller = resume(shallow.config(saved_run::base()), saved.folder, {.load_module_strict = false});
  BOOST_TEST(same_bits({parameter_of(*smaller.session, 0)}, {saved.weights[0]}));
  BOOST_TEST(
      smaller.warned("12 parameters that this run's model does not have are left out, such as "
                     "transformer.h.5.attn.c_attn.bias, "));
  BOOST_TEST(!generous.warned("are left out"));

  // The checkpoint's sixth block is also loaded as the seventh; the position embedding keeps its initial values.
  const auto fresh = deeper.open(saved_run::base());
  const auto config = deeper.config(saved_run::base());
  auto chosen =
      resume(config, saved.folder, {.custom_load_fn = [](const core::parameter_info& p) -> std::optional<std::string> {
               if (p.name == "transformer.wpe.weight") return std::nullopt;
               auto name = p.name;
               if (const auto at = name.find(".h.6."); at != name.npos) name.replace(at, 5, ".h.5.");
               return name;
             }});
  const auto& table = chosen.session->table().parameters;
  for (uint32_t q = 0; q < table.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    if (table[q].name == "transformer.wpe.weight")
      BOOST_TEST(same_bits({parameter_of(*chosen.session, q)}, {parameter_of(*fresh, q)}));
    if (table[q].name == "transformer.h.6.mlp.c_fc.weight")
      for (uint32_t k = 0; k < q; ++k)
        if (table[k].name == "transformer.h.5.mlp.c_fc.weight")
          BOOST_TEST(same_bits({parameter_of(*chosen.session, q)}, {saved.weights[k]}));
  }
  check_refused(
      try_resume(config, saved.folder,
                 {.custom_load_fn = [](const core::parameter_info&) { return std::optional<std::string>("no"); }}),
      error_kind::mismatch, "is missing as 'no' in the checkpoint");
}

BOOST_AUTO_TEST_CASE(weights_of_hugging_face_begin_a_run_at_step_0) {
  const saved_run saved;
  auto s = resume(saved.job.config(saved_run::base()), saved.folder);
  const auto folder = saved.job.folder() / "exported";
  BOOST_TEST_REQUIRE(s.session->export_hugging_face(folder.string()).has_value());
  auto begun = resume(saved.job.config({"parallel.data=2", "zero_optimization.stage=3"}), folder);
  BOOST_TEST(begun.session->steps_done() == 0U);
  BOOST_TEST(begun.warned("holds weights alone"));
  BOOST_TEST(same_bits(weights_of(*begun.session), saved.weights));
  BOOST_TEST(all_zero(moments_of(*begun.session)));
}

BOOST_AUTO_TEST_CASE(weights_in_their_computing_type_go_into_one_file_at_any_stage) {
  for (const std::string stage : {"1", "3"}) {
    BOOST_TEST_INFO_SCOPE(stage);
    const settings set{"parallel.data=2", "zero_optimization.stage=" + stage, "bf16.enabled=true",
                       "parameter_groups=[{match: wpe, trainable: false}]"};
    const small_job job;
    const auto gathering = settings{"zero_optimization.stage3_gather_16bit_weights_on_model_save=true"};
    const auto s = job.open(set + gathering);
    losses_of(*s, 1);
    for (const char* name : {"model.safetensors", "model.bin", "folder"}) {
      BOOST_TEST_INFO_SCOPE(name);
      const auto path = job.folder() / name;
      const auto did = s->save_16bit_model(path);
      BOOST_TEST_REQUIRE(did.has_value(), (did ? "" : did.error().text));
      BOOST_TEST(*did);
      const auto source = checkpoint::open_source(path);
      BOOST_TEST_REQUIRE(source.has_value(), (source ? "" : source.error().text));
      const auto dict = formats::load_state_dict(*source);
      BOOST_TEST_REQUIRE(dict.has_value());
      const auto& table = s->table().parameters;
      BOOST_TEST(dict->size() == table.size() + (path.extension() == ".safetensors" ? 0 : 1));
      for (uint32_t q = 0; q < table.size(); ++q) {
        BOOST_TEST_INFO_SCOPE("q " << q);
        const auto& got = dict->at(table[q].name);
        BOOST_TEST((got.shape == table[q].shape));
        BOOST_TEST(same_bits({*got.values}, {rounded_to_bf16(parameter_of(*s, q))}));
      }
      if (dict->contains("lm_head.weight"))
        BOOST_TEST((dict->at("lm_head.weight").values == dict->at("transformer.wte.weight").values));
    }
    const auto trained = job.folder() / "trained.bin";
    BOOST_TEST(s->save_16bit_model(trained, true).value());
    const auto without = checkpoint::open_source(trained);
    BOOST_TEST_REQUIRE(without.has_value());
    BOOST_TEST(!formats::load_state_dict(*without)->contains("transformer.wpe.weight"));
    const auto limited = formats::load_state_dict(*without, false, 100);
    BOOST_TEST((!limited && limited.error().kind == error_kind::limit));
    if (stage == "3") {
      const auto refusing = job.open(set);
      BOOST_TEST(!refusing->save_16bit_model(job.folder() / "none.bin").value());
      BOOST_TEST(!fs::exists(job.folder() / "none.bin"));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_broken_piece_is_named_and_the_checkpoint_before_is_taken_if_asked_for) {
  const saved_run saved;
  auto s = resume(saved.job.config(saved_run::base()), saved.folder);
  losses_of(*s.session, 1);
  const auto newest = s.session->save(request_of(saved.folder));
  BOOST_TEST_REQUIRE(newest.has_value());
  {
    std::fstream file(*newest / "shard-00001.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 100);
    file.put('!');
  }
  const auto config = saved.job.config(saved_run::base());
  check_refused(try_resume(config, saved.folder), error_kind::bad_input, "do not match their digest");
  auto older = resume(config, saved.folder, {.fallback_to_previous = true});
  BOOST_TEST(older.session->steps_done() == 2U);
  BOOST_TEST(older.warned("step-00000002"));
  BOOST_TEST(same_bits(weights_of(*older.session), saved.weights));
}

BOOST_AUTO_TEST_CASE(damage_that_a_load_meets_midway_takes_the_checkpoint_before_whole_if_asked_for) {
  const saved_run saved;
  const auto config = saved.job.config(saved_run::base());
  fs::path newest;
  {
    auto s = resume(config, saved.folder);
    losses_of(*s.session, 1);
    newest = s.session->save(request_of(saved.folder)).value();
  }
  const auto shard = newest / "shard-00001.bin";
  const std::string whole = scratch_folder::read(shard);
  // Opens a session whose checkpoint is damaged between the comparison of its digests and the load.
  const auto open = [&](bool falls_back, std::string& said) {
    std::ofstream(shard, std::ios::binary) << whole;
    actors::session_options options;
    options.config = config;
    options.resume = saved.folder;
    options.load.fallback_to_previous = falls_back;
    options.hooks.on_warning = [&said](const std::string& line) { said += line + "\n"; };
    options.hooks.on_opening = [&](const actors::opening_progress& p) {
      if (p.phase != "loading the checkpoint") return true;
      std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(4096 + 100);
      file.put('!');
      return true;
    };
    return actors::session::open(std::move(options));
  };
  std::string nothing, said;
  const auto refused = open(false, nothing);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.find("do not match their digest") != std::string::npos, refused.error().text);
  const auto older = open(true, said);
  BOOST_TEST_REQUIRE(older.has_value(), (older ? "" : older.error().text));
  BOOST_TEST((*older)->steps_done() == 2U);
  BOOST_TEST(said.find("the load begins anew, with the newest checkpoint that is whole") != std::string::npos, said);
  BOOST_TEST(said.find("used instead: '") != std::string::npos, said);
  BOOST_TEST(same_bits(weights_of(**older), saved.weights));
  BOOST_TEST(same_bits(moments_of(**older), saved.moments));
  BOOST_TEST(losses_of(**older, 2) == saved.next, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
