// Tests averages of weights in whole runs: they follow the weights by the formula, have the same bits for every ZeRO
// stage, tier and pipeline, whether updates precede the vote or not, come back from checkpoints, evaluate, and are
// those of torch's AveragedModel (tests/peer/make_loop_fixtures.py).
#include <map>
#include <string>
#include <vector>

#include "checkpoint/convert/open_source.hpp"
#include "formats/source/state_dict.hpp"
#include "formats/source/weight_averages.hpp"
#include "kernels/optimizer/average.hpp"
#include "tests/check_ok.hpp"
#include "tests/parity/cuts.hpp"
#include "tests/parity/peer_tensors.hpp"

BOOST_AUTO_TEST_SUITE(averages)

using namespace troupe;
using namespace troupe::tests;

namespace {

using values = std::vector<std::vector<float>>;  // by parameter

const settings kept = {"ema.decay=0.75"};

values weights_of(const actors::session& s) {
  values out;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) out.push_back(parameter_of(s, q));
  return out;
}

/// Returns the averages by parameter name; checks that copies of tied parameters have the averages of their originals.
std::map<std::string, std::vector<float>> averages_of(const actors::session& s) {
  std::map<std::string, std::vector<float>> out;
  const auto& table = s.table();
  for (uint32_t q = 0; q < table.parameters.size(); ++q) {
    if (!table.parameters[q].trainable) continue;
    const auto& name = table.parameters[table.original(q)].name;
    const auto values = moment_of(s, q, static_cast<int>(s.training_plan(0).options().update_of(q).moments) - 1);
    const auto [at, fresh] = out.emplace(name, values);
    if (!fresh) BOOST_TEST(same_bits({at->second}, {values}), "the average of a copy of " << name << " differs");
  }
  return out;
}

double evaluated(actors::session& s, bool averaged) {
  actors::evaluation_request request{.batches = 2};
  request.averaged = averaged;
  return sound(s.evaluate(request)).loss;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_average_follows_the_weights_of_each_update) {
  const small_job job;
  const core::average_options rule{.decay = 0.6, .every = 2, .start = 1, .warmup = true};
  const settings set = {"ema={decay: 0.6, every: 2, start: 1, warmup: true}", "parallel.data=2"};
  for (const settings& more : {stage(1), stage(3) + settings{"optimizer.type=SGD"},
                               stage(2) + settings{"optimizer.type=Muon"}, stage(0) + settings{"optimizer.type=Lamb"}})
    BOOST_TEST_CONTEXT(text_of(more)) {
      const auto s = job.open(set + more);
      values wanted = weights_of(*s);
      for (uint64_t update = 1; update <= 6; ++update) {
        step_of(*s);
        const auto weights = weights_of(*s);
        const auto rate = kernels::average_rate(rule, update);
        for (size_t q = 0; rate && q < wanted.size(); ++q)
          kernels::add_to_average_reference(wanted[q].data(), weights[q].data(), weights[q].size(), *rate);
      }
      for (const auto& [name, got] : averages_of(*s)) {
        const auto by_name = sound(s->states().get_full_optimizer_state(name, "ema"));
        BOOST_TEST(same_bits({got}, {by_name}), name);
        for (uint32_t q = 0; q < wanted.size(); ++q)
          if (s->table().parameters[q].name == name) BOOST_TEST(same_bits({got}, {wanted[q]}), name);
      }
    }
}

BOOST_AUTO_TEST_CASE(averages_are_those_of_torchs_averaged_model) {
  const auto peer = parity_fixture("averages.json");
  const small_job job(model_of_loops(), peer["text"].get<std::string>());
  for (const auto& run : peer["runs"]) BOOST_TEST_CONTEXT("start " << run["start"].dump()) {
      const auto s =
          open(job, {"parallel.data=2", "train_micro_batch_size_per_gpu=1", "gradient_accumulation_steps=2",
                     "zero_optimization.stage=3", "gradient_clipping=0", "data_types.param_dtype=fp64",
                     "data.sequence_length=" + peer["columns"].dump(), "optimizer.params=" + peer["adamw"].dump(),
                     "ema.decay=" + peer["decay"].dump(), "ema.start=" + run["start"].dump()});
      losses_of(*s, peer["steps"].get<uint64_t>());
      const auto averages = averages_of(*s);
      BOOST_TEST(averages.size() == run["averages"].size());
      for (const auto& [name, values] : averages) check_described(values, run["averages"].at(name), name, 1e-6);
      for (uint32_t q = 0; q < s->table().parameters.size(); ++q) {
        const auto& p = s->table().parameters[q];
        if (!p.is_copy()) check_described(parameter_of(*s, q), run["weights"].at(p.name), p.name, 1e-6);
      }
    }
}

BOOST_AUTO_TEST_CASE(every_cut_keeps_the_bits_and_a_resume_finds_them) {
  for (const settings& type : {settings{}, settings{"bf16.enabled=true"}}) {
    const small_job job(gpt2);
    const auto all = cuts(job);
    const auto& uncut = all.front();
    const auto whole = open(job, uncut.all() + kept + type);
    const auto start = sound(whole->save({.root = job.folder() / "start"}));
    losses_of(*whole, before);
    const auto wanted = averages_of(*whole);
    const auto saved = sound(whole->save({.root = job.folder() / "saved"}));
    const auto next = losses_of(*whole, after);
    const auto last = averages_of(*whole);
    for (const cut& c : all) BOOST_TEST_CONTEXT(c.name << text_of(type)) {
        if (!c.adds_alike(uncut)) continue;
        auto s = open(job, c.all() + kept + type, start);
        losses_of(*s, before);
        check_equal(averages_of(*s), wanted);
        s.reset();  // both sessions may have the same swap files
        const auto resumed = open(job, c.all() + kept + type, saved);
        check_equal(averages_of(*resumed), wanted);
        BOOST_TEST(losses_of(*resumed, after) == next, boost::test_tools::per_element());
        check_equal(averages_of(*resumed), last);
      }
  }
}

BOOST_AUTO_TEST_CASE(other_numbers_of_ranks_resume_with_the_averages) {
  const small_job job(gpt2);
  const auto s = open(job, cut{"uncut", 2, stage(2)}.all() + kept);
  losses_of(*s, before);
  const auto wanted = averages_of(*s);
  const auto saved = sound(s->save({.root = job.folder() / "saved"}));
  for (const cut& c :
       {cut{"one rank", 1, stage(0)}, cut{"four ranks", 4, stage(3)}, cut{"tensor 2", 1, stage(3), "per_use", 2}})
    BOOST_TEST_CONTEXT(c.name) check_equal(averages_of(*open(job, c.all() + kept, saved)), wanted);
}

BOOST_AUTO_TEST_CASE(updates_before_the_vote_leave_the_averages_of_updates_behind_it) {
  const small_job job;
  const settings common = kept + stage(3) +
                          settings{"parallel.data=2",
                                   zero + "offload_optimizer.device=cpu",
                                   zero + "sub_group_size=4096",
                                   "fp16.enabled=true",
                                   "fp16.initial_scale_power=24",
                                   "fp16.loss_scale_window=2",
                                   "fp16.hysteresis=1",
                                   "gradient_clipping=0.5"};
  std::vector<std::map<std::string, std::vector<float>>> got;
  for (const std::string early : {"false", "true"}) {
    const auto s = job.open(common + settings{"cluster.early_updates=" + early});
    uint64_t skipped = 0;
    for (int i = 0; i < 12; ++i) skipped += step_of(*s).skipped ? 1 : 0;
    BOOST_TEST(skipped > 0U);
    got.push_back(averages_of(*s));
  }
  check_equal(got[1], got[0]);
}

BOOST_AUTO_TEST_CASE(an_evaluation_of_averages_leaves_the_run_as_it_is) {
  const small_job job(gpt2, made_up_text(8192));
  for (const settings& type : {settings{}, settings{"bf16.enabled=true"}})
    for (const cut& c : cuts(job)) BOOST_TEST_CONTEXT(c.name << text_of(type)) {
        const settings set = c.all() + kept + type + settings{"data.validation_fraction=0.2"};
        const auto s = open(job, set);
        losses_of(*s, before);
        const auto weights = weights_of(*s);
        const auto averages = averages_of(*s);
        const double trained = evaluated(*s, false), averaged = evaluated(*s, true);
        BOOST_TEST(trained != averaged);
        BOOST_TEST(evaluated(*s, false) == trained);
        BOOST_TEST(same_bits(weights_of(*s), weights));
        check_equal(averages_of(*s), averages);
        for (const auto& [name, of] : averages) sound(s->states().set_full_fp32_param(name, of));
        BOOST_TEST(evaluated(*s, false) == averaged);
      }
}

BOOST_AUTO_TEST_CASE(an_evaluation_between_steps_changes_no_step) {
  const small_job job;
  const settings set =
      kept + stage(3) + settings{"parallel.data=2", "bf16.enabled=true", "data.validation_fraction=0.2"};
  const auto with = job.open(set + settings{"ema.evaluate=true"}), without = job.open(set);
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(step_of(*with).loss == step_of(*without).loss);
    BOOST_TEST(sound(with->evaluate(2)) == evaluated(*without, true));
  }
  check_equal(averages_of(*with), averages_of(*without));
}

BOOST_AUTO_TEST_CASE(a_run_without_averages_refuses_to_evaluate_them_and_its_checkpoint_begins_them) {
  const small_job job;
  const auto s = job.open({"data.validation_fraction=0.2"});
  losses_of(*s, 2);
  actors::evaluation_request request{.batches = 1};
  request.averaged = true;
  check_failed(s->evaluate(request), core::error_kind::bad_input,
               "evaluation: the run keeps no average of its weights; add the section ema");
  const auto saved = sound(s->save({.root = job.folder() / "saved"}));
  const auto resumed = open(job, kept + settings{"data.validation_fraction=0.2"}, saved);
  const auto averages = averages_of(*resumed);
  for (uint32_t q = 0; q < resumed->table().parameters.size(); ++q)
    BOOST_TEST(same_bits({averages.at(resumed->table().parameters[q].name)}, {parameter_of(*resumed, q)}));
  BOOST_TEST(step_of(*resumed).loss == step_of(*s).loss);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_can_be_read_with_the_averages_as_its_weights) {
  const small_job job;
  const auto s = job.open(kept + settings{"bf16.enabled=true"});
  losses_of(*s, 3);
  const auto saved = sound(s->save({.root = job.folder() / "saved"}));
  const auto source = sound(formats::with_averages(sound(checkpoint::open_source(saved))));
  for (const auto& t : source.tensors) BOOST_TEST((t.kind == formats::tensor_kind::master), t.name);
  const auto read = sound(formats::load_state_dict(source));
  for (const auto& [name, wanted] : averages_of(*s)) BOOST_TEST(same_bits({*read.at(name).values}, {wanted}), name);
  check_failed(formats::with_averages(source), core::error_kind::bad_input, "has no averages of its weights");
}

BOOST_AUTO_TEST_SUITE_END()
