// Checks that a checkpoint does not depend on how the job was sharded: saved with any pipeline, grouping, ZeRO stage or
// memory tier, it loads with any other with the same tensors bit for bit, and continues with the same losses if the
// data degree and the order of sums are equal. Reads, changes, exports and offloads of states between steps do not
// depend on the sharding either.
#include <bit>
#include <map>

#include "actors/session/state_access.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "checkpoint/source/diff.hpp"
#include "checkpoint/source/verify.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(elastic)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t before = 2, after = 2;

/// A small model in which every matrix spans several blocks of 1,024 elements, and the embedding is tied to the head.
const std::string gpt2 =
    "model: {model_type: gpt2, n_layer: 4, n_embd: 32, n_head: 4, n_positions: 16, vocab_size: 96, embd_pdrop: 0.1, "
    "attn_pdrop: 0.1, resid_pdrop: 0.1}\n";
const std::string llama =
    "model: {model_type: llama, num_hidden_layers: 4, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, "
    "intermediate_size: 64, max_position_embeddings: 16, vocab_size: 96}\n";
const std::string zero = "zero_optimization.";

struct cut {
  std::string name;
  int data = 2;  ///< data-parallel degree; a step has eight samples at any degree
  settings set;
  std::string tied = "per_use";
  int tensor = 1;
  std::string columns = "parallel.sequence=1";  ///< sequence or context degree

  [[nodiscard]] settings all() const {
    const int micro = data == 4 ? 1 : 2;
    return settings{"data.sequence_length=12",
                    "gradient_order=per_step",
                    "parallel.data=" + std::to_string(data),
                    "parallel.tensor=" + std::to_string(tensor),
                    columns,
                    "train_micro_batch_size_per_gpu=" + std::to_string(micro),
                    "gradient_accumulation_steps=" + std::to_string(8 / data / micro),
                    "tied_gradients=" + tied,
                    zero + "sub_group_size=4096",
                    zero + "reduce_bucket_size=8192",
                    zero + "stage3_param_persistence_threshold=100",
                    zero + "stage3_gather_16bit_weights_on_model_save=true"} +
           set;
  }
  /// Returns true if a step of both cuts, from the same states, has the same bits.
  [[nodiscard]] bool adds_alike(const cut& x) const {
    return data == x.data && tied == x.tied && tensor == x.tensor && columns == x.columns;
  }
};

settings stage(int n) { return {zero + "stage=" + std::to_string(n)}; }
settings pipeline(int ranks, const std::string& schedule, int chunks = 1) {
  return {"parallel.pipeline=" + std::to_string(ranks), "pipeline.schedule=" + schedule,
          "pipeline.chunks=" + std::to_string(chunks)};
}
settings in_files(const small_job& job, const std::string& folder) {
  const std::string nvme = "device: nvme, nvme_path: " + (job.folder() / folder).string();
  return {zero + "offload_optimizer={" + nvme + "}", zero + "offload_param={" + nvme + ", max_in_cpu: 4096}"};
}

/// Returns different cuts of a job. `folder` is for swap files; two sessions that are open at the same time need
/// different folders.
std::vector<cut> cuts(const small_job& job, const std::string& folder = "swap") {
  return {{"uncut", 2, stage(2)},
          {"pipeline 2", 2, pipeline(2, "1f1b") + stage(3)},
          {"pipeline 3", 1, pipeline(3, "zb_h1") + stage(1)},
          {"chunks 2", 2, pipeline(2, "interleaved", 2) + stage(1)},
          {"V", 1, pipeline(2, "zb_v", 2) + stage(3)},
          {"replicate x shard", 4, pipeline(2, "gpipe") + stage(2) + settings{"parallel.shard=2"}},
          {"hpZ", 4, stage(3) + settings{zero + "zero_hpz_partition_size=2"}},
          {"in files", 2, pipeline(2, "1f1b") + stage(3) + in_files(job, folder)},
          {"stage 0", 2, pipeline(2, "zb_h1") + stage(0)},
          {"ties in one bucket", 2, stage(3), "in_bucket"}};
}

/// Returns cuts with tensor degrees that do not divide the number of heads: the shards differ in size, and the last one
/// may be empty.
std::vector<cut> tensor_cuts(const small_job& job, const std::string& folder = "swap") {
  const std::string one = "per_use";
  return {{"uncut", 2, stage(2)},
          {"context 2 x tensor 2", 1, stage(3), one, 2, "parallel.context=2"},
          {"sequence 2 x tensor 2", 1, stage(2), one, 2, "parallel.sequence=2"},
          {"tensor 2", 2, stage(0), one, 2},
          {"tensor 2, stage 3", 2, stage(3), one, 2},
          {"tensor 3, stage 3", 1, stage(3), one, 3},
          {"tensor 4", 1, stage(2), one, 4},
          {"pipeline 2 x tensor 2", 2, pipeline(2, "1f1b") + stage(1), one, 2},
          {"V x tensor 2", 1, pipeline(2, "zb_v", 2) + stage(3), one, 2},
          {"tensor 2, replicate x shard", 4, stage(2) + settings{"parallel.shard=2"}, one, 2},
          {"tensor 3 in files", 2, stage(3) + in_files(job, folder), one, 3},
          {"tensor 2, ties in one bucket", 2, stage(3), "in_bucket", 2}};
}

std::unique_ptr<actors::session> open(const small_job& job, const settings& set, const fs::path& resume = {}) {
  auto s = actors::session::open({.config = job.config(set), .resume = resume});
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

template <class T>
T sound(core::result<T> x) {
  if (!x) throw std::runtime_error(x.error().text);
  return std::move(*x);
}
void sound(core::result<void> x) {
  if (!x) throw std::runtime_error(x.error().text);
}

/// Returns weights and moments by parameter name and kind; checks that copies equal their originals.
std::map<std::string, std::vector<float>> tensors_of(const actors::session& s) {
  std::map<std::string, std::vector<float>> out;
  const auto& table = s.table();
  for (uint32_t q = 0; q < table.parameters.size(); ++q) {
    const std::string& name = table.parameters[table.original(q)].name;
    for (const auto& [part, values] :
         {std::pair{" weight", parameter_of(s, q)}, std::pair{" first", moment_of(s, q, 0)},
          std::pair{" second", moment_of(s, q, 1)}}) {
      const auto [at, fresh] = out.emplace(name + part, values);
      if (!fresh) BOOST_TEST(same_bits({at->second}, {values}), "a copy of " << name << part << " differs");
    }
  }
  return out;
}

template <class A>
void check_equal(const A& got, const A& wanted) {
  BOOST_TEST(got.size() == wanted.size());
  for (const auto& [name, values] : wanted)
    BOOST_TEST((got.contains(name) && same_bits({got.at(name)}, {values})), name << " differs");
}

std::vector<double> losses_of(actors::session& s, uint64_t steps) {
  std::vector<double> out;
  for (uint64_t i = 0; i < steps; ++i) out.push_back(step_of(s).loss);
  return out;
}

struct saved_cut {
  fs::path folder;
  std::map<std::string, std::vector<float>> tensors;
  std::vector<double> next;
};

saved_cut train_and_save(const small_job& job, const cut& c, const settings& common) {
  saved_cut out;
  const auto s = open(job, c.all() + common);
  losses_of(*s, before);
  out.tensors = tensors_of(*s);
  out.folder = sound(s->save({.root = job.folder() / ("saved " + c.name)}));
  out.next = losses_of(*s, after);
  return out;
}

/// Checks that a checkpoint contains every element of the model exactly once, and no copies of tied parameters.
void check_folder(const saved_cut& saved, const actors::session& s) {
  const auto report = sound(checkpoint::verify_checkpoint(checkpoint::real_files(), saved.folder));
  BOOST_TEST(report.damages == 0U);
  uint64_t elements = 0, tensors = 0;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) {
    const uint64_t of_each =
        s.table().parameters[q].is_copy() ? 0 : 1 + s.training_plan(0).options().update_of(q).moments;
    elements += of_each * s.table().parameters[q].numel();
    tensors += of_each;
  }
  BOOST_TEST(report.bytes == elements * sizeof(float));
  const auto source = sound(checkpoint::open_source(saved.folder));
  BOOST_TEST(source.tensors.size() == tensors);
  for (const auto& t : source.tensors) BOOST_TEST(t.name.find(' ') == std::string::npos, t.name);
}

void check_same_files(const fs::path& a, const fs::path& b) {
  const auto report = sound(checkpoint::diff_sources(checkpoint::real_files(), sound(checkpoint::open_source(a)),
                                                     sound(checkpoint::open_source(b))));
  BOOST_TEST(report.tensors > 0U);
  for (const auto& d : report.differences) BOOST_TEST(false, d.text);
  BOOST_TEST(report.left_out_moments + report.left_out_weights == 0U);
}

/// Checks that every cut loads checkpoints of other cuts: that of the next cut when it is opened, and two more while it
/// is open, at distances in the list that differ from cut to cut. `make soak` tests every pair.
void check_elastic(const small_job& job, const std::vector<cut>& all, const settings& common, double tolerance) {
  std::vector<saved_cut> saved;
  for (const auto& c : all) BOOST_TEST_CONTEXT(c.name) saved.push_back(train_and_save(job, c, common));
  for (size_t to = 0; to < all.size(); ++to) {
    const size_t neighbour = (to + 1) % all.size();
    const auto s = open(job, all[to].all() + common, saved[neighbour].folder);
    check_folder(saved[to], *s);
    const size_t others = all.size() - 1, drawn = std::min<size_t>(others, wanted_cases("TROUPE_CASES", 2));
    for (size_t i = 0; i <= drawn; ++i) {
      const size_t k = i == 0 ? 0 : 1 + (to + (i - 1) * std::max<size_t>(1, others / drawn)) % others;
      const size_t from = (neighbour + k) % all.size();
      BOOST_TEST_CONTEXT("saved: " << all[from].name << ", loaded: " << all[to].name) {
        if (k > 0) (void)sound(s->load(saved[from].folder, {.pipeline_loading_checkpoint = k % 2 == 0}));
        check_equal(tensors_of(*s), saved[from].tensors);
        if (k == 0) check_same_files(sound(s->save({.root = job.folder() / "again"})), saved[from].folder);
        const auto got = losses_of(*s, after);
        for (uint64_t step = 0; step < after; ++step) {
          BOOST_TEST_INFO_SCOPE("step " << step);
          BOOST_TEST(std::abs(got[step] - saved[from].next[step]) < tolerance);
          if (all[to].adds_alike(all[from])) BOOST_TEST(got[step] == saved[from].next[step]);
        }
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_cut_loads_the_checkpoint_of_every_other_with_a_tied_embedding) {
  const small_job job(gpt2);
  check_elastic(job, cuts(job), {}, 1e-5);
}

BOOST_AUTO_TEST_CASE(ranks_that_hold_the_same_elements_share_their_writing) {
  const small_job job(gpt2);
  for (const auto& c : cuts(job)) BOOST_TEST_CONTEXT(c.name) {
      const auto source = sound(checkpoint::open_source(train_and_save(job, c, {}).folder));
      std::vector<uint64_t> written(source.files.size());  // number of elements in each rank's file
      for (const auto& t : source.tensors)
        for (const auto& piece : t.pieces) written[piece.file] += piece.count;
      BOOST_TEST(std::ranges::max(written) < 8 * std::ranges::min(written));
    }
}

BOOST_AUTO_TEST_CASE(every_cut_loads_the_checkpoint_of_every_other_in_bf16_with_a_head_of_its_own) {
  const small_job job(llama);
  auto all = cuts(job);
  all.pop_back();  // the last cut requires a tied weight
  check_elastic(job, all, {"bf16.enabled=true"}, 2e-2);
}

BOOST_AUTO_TEST_CASE(every_tensor_cut_loads_the_checkpoint_of_every_other_with_a_tied_embedding) {
  const small_job job(gpt2);
  check_elastic(job, tensor_cuts(job), {}, 1e-5);
}

BOOST_AUTO_TEST_CASE(tensor_cuts_load_the_checkpoints_of_others_in_bf16_with_a_head_of_its_own) {
  const small_job job(llama);
  auto all = tensor_cuts(job);
  std::erase_if(all, [](const cut& c) {
    const auto names = {"uncut",    "tensor 2, stage 3", "sequence 2 x tensor 2",
                        "tensor 4", "V x tensor 2",      "tensor 3 in files"};
    return std::ranges::find(names, c.name) == names.end();
  });
  check_elastic(job, all, {"bf16.enabled=true"}, 2e-2);
}

BOOST_AUTO_TEST_CASE(tensor_cuts_load_the_checkpoints_of_others_with_the_moments_of_whole_matrices) {
  const small_job job(llama);
  auto all = tensor_cuts(job);
  std::erase_if(all, [](const cut& c) {
    const auto names = {"uncut", "tensor 2, stage 3", "tensor 3, stage 3", "tensor 4", "V x tensor 2"};
    return std::ranges::find(names, c.name) == names.end();
  });
  check_elastic(job, all, {"optimizer.type=Muon", "optimizer.params.lr=0.001"}, 1e-5);
}

// Each checkpoint is saved while a step runs, so that its snapshots overlap with a pipeline's instructions, and it
// contains the loss scale of fp16.
BOOST_AUTO_TEST_CASE(a_run_that_changes_its_cut_at_every_checkpoint_has_the_bits_of_one_that_does_not) {
  const small_job job(gpt2 + "parameter_groups: [{match: 'h\\.1\\.|wpe', trainable: false}]\n");
  const std::string over_ranks = " over tensor ranks";
  for (const std::string run :
       {"AdamW", "Muon", "Lamb", "AdamW over tensor ranks", "Lamb over tensor ranks", "Muon over tensor ranks"})
    BOOST_TEST_CONTEXT(run) {
      const bool cuts_parameters = run.ends_with(over_ranks);
      const std::string optimizer = cuts_parameters ? run.substr(0, run.size() - over_ranks.size()) : run;
      const settings common = {"optimizer.type=" + optimizer, "optimizer.params.lr=0.001", "fp16.enabled=true",
                               "fp16.initial_scale_power=19", "fp16.hysteresis=1",         "fp16.loss_scale_window=2"};
      auto all = cuts_parameters ? tensor_cuts(job, "swap of " + run) : cuts(job, "swap of " + run);
      std::erase_if(
          all, [&, alike = *std::ranges::find(all, cuts_parameters ? "tensor 2" : "uncut", &cut::name)](const cut& c) {
            return !c.adds_alike(alike) || (c.name == "in files" && optimizer != "AdamW");
          });
      BOOST_TEST(all.size() >= 3U);
      const auto whole = open(job, all.front().all() + common);
      fs::path folder;
      bool skipped = false;
      for (const auto& c : all) BOOST_TEST_CONTEXT(c.name) {
          const auto s = open(job, c.all() + common, folder);
          const auto first_step = [&] {
            const auto a = step_of(*whole), b = step_of(*s);
            BOOST_TEST(a.loss == b.loss);
            BOOST_TEST(a.loss_scale == b.loss_scale);
            BOOST_TEST(a.skipped == b.skipped);
            skipped |= a.skipped;
          };
          first_step();
          BOOST_TEST(s->steps_done() == whole->steps_done());
          sound(s->save_async({.root = job.folder() / run, .client_state = "[1]"}));
          const auto tensors = tensors_of(*whole);
          check_equal(tensors_of(*s), tensors);
          (void)step_of(*s);  // the checkpoint has the states from before this step
          sound(s->wait_for_saves());
          folder = job.folder() / run;
        }
      BOOST_TEST(skipped);
      const auto s = open(job, all.front().all() + common, folder);
      BOOST_TEST(s->client_state() == "[1]");
      check_equal(tensors_of(*s), tensors_of(*whole));
    }
}

BOOST_AUTO_TEST_CASE(a_session_that_changes_its_cut_between_steps_has_the_bits_of_one_that_was_saved_and_resumed) {
  const small_job job(gpt2 + "parameter_groups: [{match: 'h\\.1\\.|wpe', trainable: false}]\n");
  for (const bool over_tensor_ranks : {false, true})
    for (const settings& common :
         {settings{"data.validation_fraction=0.1", "fp16.enabled=true", "fp16.initial_scale_power=19",
                   "fp16.hysteresis=1", "fp16.loss_scale_window=2"},
          settings{"data.validation_fraction=0.1", "optimizer.type=Muon", "optimizer.params.lr=0.001"}})
      BOOST_TEST_CONTEXT(common[1] << (over_tensor_ranks ? ", tensor ranks" : "")) {
        auto all = over_tensor_ranks ? tensor_cuts(job) : cuts(job);
        auto twins = over_tensor_ranks ? tensor_cuts(job, "twin's") : cuts(job, "twin's");
        if (common.size() < 4)  // Muon's states cannot be in swap files
          for (auto* list : {&all, &twins})
            std::erase_if(*list, [](const cut& c) { return c.name.ends_with("in files"); });
        const auto s = open(job, all.front().all() + common);
        for (size_t k = 1; k <= all.size(); ++k) BOOST_TEST_CONTEXT("to " << all[k % all.size()].name) {
            (void)step_of(*s);
            const auto folder = sound(s->save({.root = job.folder() / "terms", .client_state = "[7]"}));
            const auto twin = open(job, twins[k % all.size()].all() + common, folder);
            sound(s->change_degrees(job.config(all[k % all.size()].all() + common)));
            check_equal(tensors_of(*s), tensors_of(*twin));
            BOOST_TEST(s->steps_done() == k);
            BOOST_TEST(sound(s->evaluate(1)) == sound(twin->evaluate(1)));
            const auto a = step_of(*s), b = step_of(*twin);
            BOOST_TEST(a.loss == b.loss);
            BOOST_TEST(std::bit_cast<uint64_t>(a.grad_norm) == std::bit_cast<uint64_t>(b.grad_norm));
            BOOST_TEST(a.loss_scale == b.loss_scale);
            check_equal(tensors_of(*s), tensors_of(*twin));
            (void)sound(s->load(folder));
          }
      }
}

BOOST_AUTO_TEST_CASE(a_change_of_degrees_that_is_refused_leaves_the_run_as_it_was) {
  const small_job job(gpt2);
  const auto all = cuts(job);
  const auto s = open(job, all[0].all()), undisturbed = open(job, all[0].all());
  const auto same_step = [&] { BOOST_TEST(step_of(*s).loss == step_of(*undisturbed).loss); };
  same_step();
  const auto refusal = [&](const settings& more) {
    const auto did = s->change_degrees(job.config(all[1].all() + more));
    return did ? "" : did.error().text;
  };
  const auto says = [](const std::string& text, const std::string& what) {
    return text.find(what) != std::string::npos;
  };
  BOOST_TEST(says(refusal({"train_batch_size=16", "gradient_accumulation_steps=4"}), "train_batch_size: wanted 8"));
  BOOST_TEST(says(refusal({"seed=99"}), "seed: wanted"));
  BOOST_TEST(says(refusal({"bf16.enabled=true"}), "the type of parameters: wanted fp32"));
  // The plan for another model can be made, but the session has no states for it.
  const auto other =
      small_job("model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 16, vocab_size: 96}\n");
  const auto why = s->change_degrees(other.config(all[0].all()));
  BOOST_REQUIRE(!why);
  BOOST_TEST(says(why.error().text, "in tensor"), why.error().text);
  same_step();
  const auto way = sound(s->save({.root = job.folder() / "after"}));
  check_equal(tensors_of(*open(job, all[2].all(), way)), tensors_of(*undisturbed));
}

BOOST_AUTO_TEST_CASE(parts_of_a_checkpoint_and_weights_alone_come_out_the_same_at_every_cut) {
  const small_job job(gpt2);
  const settings bf16 = {"bf16.enabled=true"};
  auto all = cuts(job);
  for (const auto& c : tensor_cuts(job, "swap of tensor ranks"))
    if (c.tensor == 3 || c.name == "pipeline 2 x tensor 2") all.push_back(c);
  const auto start = train_and_save(job, all[1], bf16);
  const auto hugging_face = job.folder() / "exported";
  sound(open(job, all[1].all() + bf16, start.folder)->export_hugging_face(hugging_face.string()));
  const std::vector<std::pair<fs::path, actors::load_options>> loads = {
      {start.folder, {.load_module_only = true}},
      {start.folder, {.load_optimizer_states = false}},
      {start.folder, {.load_from_fp32_weights = false}},
      {hugging_face, {}}};
  std::vector<std::map<std::string, std::vector<float>>> wanted;
  for (const auto& c : all) BOOST_TEST_CONTEXT(c.name) {
      const auto s = open(job, c.all() + bf16);
      for (size_t i = 0; i < loads.size(); ++i) {
        (void)sound(s->load(start.folder));
        losses_of(*s, 1);
        (void)sound(s->load(loads[i].first, loads[i].second));
        const auto got = tensors_of(*s);
        if (wanted.size() == i) wanted.push_back(got);
        check_equal(got, wanted[i]);
      }
    }
  BOOST_TEST((wanted[0] != start.tensors));
}

BOOST_AUTO_TEST_CASE(states_are_read_and_changed_by_name_at_every_cut) {
  const small_job job(gpt2);
  const auto changed = [](std::vector<float> x, float by) {
    for (float& v : x) v = v * by + 0.001F;
    return x;
  };
  // Results of the first cut with each data degree and treatment of tied gradients.
  std::map<std::pair<int, std::string>, std::vector<std::vector<double>>> first;
  for (const auto& c : cuts(job)) BOOST_TEST_CONTEXT(c.name) {
      const auto s = open(job, c.all() + settings{"bf16.enabled=true"});
      std::vector<std::vector<double>> got;
      got.push_back(losses_of(*s, 1));
      for (const std::string name :
           {"transformer.wte.weight", "transformer.h.2.mlp.c_fc.weight", "transformer.ln_f.bias"}) {
        BOOST_TEST_INFO_SCOPE(name);
        const auto states = s->states();
        const auto add = [&](const std::vector<float>& x) { got.emplace_back(x.begin(), x.end()); };
        add(sound(states.get_full_grad(name)));
        const auto weights = changed(sound(states.get_full_fp32_param(name)), 0.5F);
        sound(states.set_full_fp32_param(name, weights));
        BOOST_TEST((sound(states.get_full_fp32_param(name)) == weights));
        for (const char* key : {"exp_avg", "exp_avg_sq"})
          sound(states.set_full_optimizer_state(name, key,
                                                changed(sound(states.get_full_optimizer_state(name, key)), 2)));
        uint64_t own = 0;
        for (uint32_t r = 0; r < s->memory().size(); ++r) {
          BOOST_TEST_INFO_SCOPE("r " << r);
          const auto range = sound(states.local_slice(r, name));
          const auto part = sound(states.get_local_fp32_param(r, name));
          BOOST_TEST(std::equal(part.begin(), part.end(), weights.begin() + static_cast<long>(range.first)));
          own += part.size();
        }
        BOOST_TEST(own % weights.size() == 0U);  // each replica contributes the whole weight
        BOOST_TEST(own > 0U);
      }
      for (const auto& [name, values] : tensors_of(*s)) got.emplace_back(values.begin(), values.end());
      got.push_back(losses_of(*s, 2));
      const auto [at, fresh] = first.emplace(std::pair(c.data, c.tied), got);
      if (!fresh) BOOST_TEST((got == at->second), "another cut with the same sums has other bits");
      sound(s->save({.root = job.folder() / ("changed " + c.name)}).map([](const auto&) {}));
      check_equal(tensors_of(*open(job, cuts(job).front().all() + settings{"bf16.enabled=true"},
                                   job.folder() / ("changed " + c.name))),
                  tensors_of(*s));
    }
}

BOOST_AUTO_TEST_CASE(exported_files_are_the_same_at_every_cut_and_states_come_back_from_files) {
  const small_job job(gpt2);
  const auto start = train_and_save(job, cuts(job).front(), {});
  std::vector<std::string> wanted;
  for (const auto& c : cuts(job)) BOOST_TEST_CONTEXT(c.name) {
      const auto s = open(job, c.all(), start.folder);
      const auto folder = job.folder() / "written";
      sound(s->export_hugging_face(folder.string()));
      BOOST_TEST(sound(s->save_16bit_model(folder / "used.safetensors")));
      BOOST_TEST(sound(s->save_16bit_model(folder / "used.bin")));
      std::vector<std::string> got;
      for (const char* file : {"model.safetensors", "used.safetensors", "used.bin"})
        got.push_back(scratch_folder::read(folder / file));
      if (wanted.empty()) wanted = got;
      BOOST_TEST((got == wanted));
      fs::remove_all(folder);

      fs::create_directories(job.folder() / "away");
      const auto away = sound(s->offload_states({.device = plan::tier::nvme, .nvme_path = job.folder() / "away"}));
      BOOST_TEST(away.moved_bytes > 0U);
      BOOST_TEST(!s->save({.root = folder}).has_value());
      sound(s->reload_states());
      check_equal(tensors_of(*s), start.tensors);
      const auto next = losses_of(*s, after);
      if (c.adds_alike(cuts(job).front())) BOOST_TEST(next == start.next, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_SUITE_END()
