// Checks that a run which changes how it is sharded between steps has the bits of one that does not, and that reads,
// changes, exports and offloads of states between steps do not depend on the sharding.
#include <bit>

#include "tests/crash/wanted_cases.hpp"
#include "tests/parity/cuts.hpp"

BOOST_AUTO_TEST_SUITE(elastic_states)

using namespace troupe;
using namespace troupe::tests;

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

// AdamW changes to every cut without tensor ranks and to half of those with them, Muon the other way round; `make soak`
// tests all of them.
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
        const bool muon = common.size() < 4,
                   every_cut = muon == over_tensor_ranks || wanted_cases("TROUPE_CASES", 0) > 0;
        for (auto* list : {&all, &twins}) {
          // Muon's states cannot be in swap files.
          if (muon) std::erase_if(*list, [](const cut& c) { return c.name.ends_with("in files"); });
          if (every_cut) continue;
          std::vector<cut> half;
          for (size_t i = 0; i < list->size(); i += 2) half.push_back(std::move((*list)[i]));
          *list = std::move(half);
        }
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
