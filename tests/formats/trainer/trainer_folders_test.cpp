// Tests folders of transformers' Trainer and of Accelerate: folders that these programs saved
// (tests/peer/troupe_resumes_trainer.py), and small ones that the test makes, whose optimizer file does not match the
// model, is damaged, or calls a function.
#include <boost/test/unit_test.hpp>

#include "checkpoint/convert/open_source.hpp"
#include "formats/compressed/source.hpp"
#include "formats/report/inspect.hpp"
#include "formats/report/verify.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/torch/archive_writer.hpp"
#include "formats/torch/pickle_reader.hpp"
#include "formats/trainer/numbered_states.hpp"
#include "formats/trainer/trainer.hpp"
#include "tests/counted_memory.hpp"
#include "tests/formats/mutations.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(trainer_folders)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
namespace fs = std::filesystem;
using core::dtype;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/trainer";

/// Returns the names of the parameters of a fixture's model, in the order of registration.
std::vector<std::string> registered(const std::string& name) {
  const std::string h = "transformer.h.0.", l = "model.layers.0.";
  if (name.ends_with("gpt2"))
    return {"transformer.wte.weight", "transformer.wpe.weight", h + "ln_1.weight",         h + "ln_1.bias",
            h + "attn.c_attn.weight", h + "attn.c_attn.bias",   h + "attn.c_proj.weight",  h + "attn.c_proj.bias",
            h + "ln_2.weight",        h + "ln_2.bias",          h + "mlp.c_fc.weight",     h + "mlp.c_fc.bias",
            h + "mlp.c_proj.weight",  h + "mlp.c_proj.bias",    "transformer.ln_f.weight", "transformer.ln_f.bias"};
  return {"model.embed_tokens.weight",   l + "self_attn.q_proj.weight",
          l + "self_attn.k_proj.weight", l + "self_attn.v_proj.weight",
          l + "self_attn.o_proj.weight", l + "mlp.gate_proj.weight",
          l + "mlp.up_proj.weight",      l + "mlp.down_proj.weight",
          l + "input_layernorm.weight",  l + "post_attention_layernorm.weight",
          "model.norm.weight",           "lm_head.weight"};
}

std::vector<wanted_tensor> order_of(const tensor_source& shapes, const std::vector<std::string>& names) {
  std::vector<wanted_tensor> out;
  for (const auto& name : names) {
    const auto* t = find_tensor(shapes, name, tensor_kind::weight);
    BOOST_REQUIRE_MESSAGE(t != nullptr, name);
    out.push_back({name, t->shape});
  }
  return out;
}

/// Returns all remarks about a folder as one text.
std::string remarks_of(const tensor_source& s) {
  std::string out;
  for (const auto& line : s.remarks) out += line + "\n";
  return out;
}
bool says(const tensor_source& s, const std::string& words) { return remarks_of(s).find(words) != std::string::npos; }

/// A folder with a matrix, its bias and a norm, and an optimizer's file with one moment of each.
struct small_folder {
  std::vector<std::vector<int64_t>> groups{{0}, {1, 2}};
  /// Shapes of the parameters with optimizer states, by the state's number.
  std::vector<std::vector<int64_t>> shapes{{4, 2}, {4}, {2}};
  torch_value states = torch_value::dict();  ///< states to write instead, unless it is empty
  std::string step = R"({"global_step": 7, "log_history": [{"loss": 1.5, "step": 7}]})";

  const scratch_folder& write(const scratch_folder& at) const {
    const std::vector<owned_tensor> weights{
        {"l.weight", dtype::f32, {4, 2}}, {"l.bias", dtype::f32, {4}}, {"norm.weight", dtype::f32, {2}}};
    check_ok(write_weights_folder(at.path(), all_to_write(weights), 1000));
    if (!step.empty()) at.write("trainer_state.json", step);
    std::vector<torch_storage> storages;
    std::vector<std::vector<std::byte>> bytes;
    bytes.reserve(shapes.size());
    auto all = torch_value::dict();
    for (size_t i = 0; i < shapes.size(); ++i) {
      const auto numel = core::numel_of(shapes[i]);
      bytes.push_back(noise(numel * 4, i));
      storages.push_back({dtype::f32, numel, bytes.back(), {}});
      all.set(static_cast<int64_t>(i), torch_value::dict()
                                           .set("step", int64_t{6})
                                           .set("exp_avg", torch_view{static_cast<uint32_t>(i), 0, shapes[i]}));
    }
    auto dealt = torch_value::list();
    for (const auto& g : groups) {
      auto numbers = torch_value::list();
      for (const int64_t n : g) numbers.push(n);
      dealt.push(torch_value::dict().set("lr", 0.1).set("params", std::move(numbers)));
    }
    if (!states.items().empty()) {
      all = states;
      storages.clear();
    }
    fs::remove(at / "optimizer.pt");
    check_ok(write_torch_archive(at / "optimizer.pt",
                                 torch_value::dict().set("state", std::move(all)).set("param_groups", std::move(dealt)),
                                 storages));
    return at;
  }
};

const std::vector<wanted_tensor> small_order{{"l.weight", {4, 2}}, {"l.bias", {4}}, {"norm.weight", {2}}};

/// Returns the result of name_states() for a folder that the test writes.
core::result<tensor_source> named(const small_folder& folder, const scratch_folder& at,
                                  std::span<const wanted_tensor> order = small_order) {
  auto source = check_ok(open_source(folder.write(at).path()));
  if (auto ok = name_states(*source, order); !ok) return core::fail(ok.error());
  return source;
}

void check_states_refused(const small_folder& folder, const std::string& words) {
  const scratch_folder at;
  check_failed(named(folder, at), error_kind::mismatch, words);
}

}  // namespace

BOOST_AUTO_TEST_CASE(folders_that_were_saved_have_each_parameters_moments) {
  for (const std::string name : {"trainer_gpt2", "trainer_llama", "accelerate_gpt2", "accelerate_llama"}) {
    BOOST_TEST_CONTEXT(name) {
      const bool is_trainers = name.starts_with("trainer");
      auto got = check_ok(open_source(fixtures / name));
      const auto wanted = check_ok(hugging_face_format.open(fixtures / (name + ".safetensors"), {}));
      // Accelerate's file contains the order of the parameters.
      BOOST_TEST((got->numbered == nullptr) == (name == "accelerate_gpt2"));
      check_ok(name_states(*got, order_of(*wanted, registered(name))));
      BOOST_TEST(got->tensors.size() == wanted->tensors.size());
      for (const auto& t : got->tensors) {
        BOOST_TEST((t.kind == tensor_kind::master || t.kind == tensor_kind::moment));
        const auto* w =
            find_tensor(*wanted, t.kind == tensor_kind::moment ? t.name + "/" + t.moment : t.name, tensor_kind::weight);
        BOOST_REQUIRE_MESSAGE(w != nullptr, shown(t));
        BOOST_TEST((w->shape == t.shape && bytes_in(*got, t) == bytes_in(*wanted, *w)), shown(t));
      }
      BOOST_TEST(got->format == (is_trainers ? "transformers Trainer" : "Accelerate"));
      BOOST_TEST(got->run.steps.value() == 3U);
      BOOST_TEST(got->run.applied_updates.value() == 3U);
      BOOST_TEST(got->run.schedule_position.value() == 3);
      BOOST_TEST(says(*got, "exp_avg, exp_avg_sq of "), remarks_of(*got));
      BOOST_TEST(says(*got, "its position, 3, is imported"), remarks_of(*got));
      BOOST_TEST(says(*got, "not imported: " +
                                std::string(is_trainers ? "rng_state.pth, training_args.bin" : "random_states_0.pkl")),
                 remarks_of(*got));
      BOOST_TEST(says(*got, "trainer_state.json: step 3 is imported") == is_trainers);
      BOOST_TEST((inspect_text(*got).find("trainer_state.json: step 3") != std::string::npos) == is_trainers);
      const auto checked = check_ok(verify_source(real_files(), *got));
      BOOST_TEST(checked->damages == 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(without_the_models_order_weights_are_read_and_the_rest_is_said) {
  auto got = check_ok(open_source(fixtures / "trainer_gpt2"));
  BOOST_TEST(got->tensors.size() == 16U);
  leave_out_states(*got, "nobody knows");
  BOOST_TEST(says(*got, "optimizer.pt: the optimizer's states are not imported: nobody knows"), remarks_of(*got));
  BOOST_TEST(got->run.steps.value() == 3U);
}

BOOST_AUTO_TEST_CASE(a_folder_of_checkpoints_stands_for_its_newest) {
  const scratch_folder at;
  for (const char* name : {"checkpoint-9", "checkpoint-10", "checkpoint-x"}) {
    const scratch_folder one;
    const small_folder folder{.step = std::string(R"({"global_step": )") +
                                      (name == std::string("checkpoint-9") ? "9}" : "10}")};
    fs::copy(folder.write(one).path(), at / name, fs::copy_options::recursive);
  }
  const auto newest = check_ok(open_source(at.path()));
  BOOST_TEST(newest->run.steps.value() == 10U);
  const auto other = check_ok(open_source(at.path(), {.tag = "checkpoint-9"}));
  BOOST_TEST(other->run.steps.value() == 9U);
}

BOOST_AUTO_TEST_CASE(one_group_of_all_and_two_by_decay_are_told_apart) {
  const scratch_folder one, two;
  const auto all = named({.groups = {{0, 1, 2}}}, one), dealt = named({}, two);
  check_ok(all);
  check_ok(dealt);
  for (const auto* s : {&*all, &*dealt}) {
    const auto* t = find_tensor(*s, "norm.weight", tensor_kind::moment, "exp_avg");
    BOOST_REQUIRE(t != nullptr);
    BOOST_TEST(same_bytes(bytes_in(*s, *t), noise(8, 2)));
    BOOST_TEST(s->run.steps.value() == 7U);
    BOOST_TEST(s->run.applied_updates.value() == 6U);
  }
}

BOOST_AUTO_TEST_CASE(states_that_have_names_go_to_their_parameters) {
  const scratch_folder at;
  const owned_tensor w("l.weight", dtype::f32, {4, 2}), b("l.bias", dtype::f32, {4});
  check_ok(write_torch_archive(at / "pytorch_model_fsdp.bin", std::vector<tensor_to_write>{w.to_write(), b.to_write()},
                               {{"head", "l.weight"}}));
  const auto put = [&](const std::vector<int64_t>& shape) {
    const auto bytes = noise(core::numel_of(shape) * 4, 5);
    const std::vector<torch_storage> storages{{dtype::f32, core::numel_of(shape), bytes, {}}};
    auto states = torch_value::dict();
    states.set("head", torch_value::dict().set("step", 4.0).set("exp_avg", torch_view{0, 0, shape}));
    auto names = torch_value::list({"head", "l.bias"});
    auto groups = torch_value::list({torch_value::dict().set("params", std::move(names))});
    fs::remove(at / "optimizer.bin");
    check_ok(write_torch_archive(
        at / "optimizer.bin",
        torch_value::dict().set("state", std::move(states)).set("param_groups", std::move(groups)), storages));
    return open_source(at.path());
  };
  const auto good = check_ok(put({4, 2}));
  const auto* t = find_tensor(*good, "l.weight", tensor_kind::moment, "exp_avg");
  BOOST_REQUIRE(t != nullptr);
  BOOST_TEST(same_bytes(bytes_in(*good, *t), noise(32, 5)));
  BOOST_TEST(find_tensor(*good, "l.bias", tensor_kind::weight) != nullptr);
  BOOST_TEST(good->run.steps.value() == 4U);
  auto bad = check_ok(put({2, 4}));
  check_failed(name_states(*bad, small_order), error_kind::mismatch,
               "its exp_avg of 'head' has the shape [2, 4], wanted [4, 2]");
}

BOOST_AUTO_TEST_CASE(beside_states_that_fsdp_saved_in_parts_steps_and_schedule_are_taken_over) {
  const scratch_folder at;
  fs::copy(fixtures.parent_path() / "torch_dist/accelerate", at / "ck", fs::copy_options::recursive);
  const auto without = check_ok(open_source(at / "ck"));
  BOOST_TEST(without->remarks.empty());
  fs::copy_file(fixtures / "accelerate_gpt2/scheduler.bin", at / "ck/scheduler.bin");
  at.write("ck/trainer_state.json", R"({"global_step": 30})");
  const auto with = check_ok(open_source(at / "ck"));
  BOOST_TEST(with->format == "PyTorch distributed");
  BOOST_TEST(with->tensors.size() == without->tensors.size());
  BOOST_TEST(with->run.steps.value() == 30U);
  BOOST_TEST(with->run.applied_updates.value() == 28U);
  BOOST_TEST(with->run.schedule_position.value() == 3);
  BOOST_TEST(with->remarks.size() == 3U, remarks_of(*with));
  BOOST_TEST(says(*with, "the optimizer counts 28 updates, trainer_state.json 30 steps: the others were skipped, or"));
  at.write("ck/trainer_state.json", R"({"global_step": 27})");
  check_failed(open_source(at / "ck"), error_kind::bad_input,
               "the optimizer counts 28 updates, trainer_state.json only 27 steps: they are from different saves");
}

BOOST_AUTO_TEST_CASE(an_optimizer_before_its_first_update_is_said_to_hold_no_states) {
  const scratch_folder at;
  const auto got = check_ok(named({.shapes = {}}, at));
  BOOST_TEST(says(*got, "optimizer.pt: it holds no states of an optimizer\n"), remarks_of(*got));
  BOOST_TEST(got->tensors.size() == 3U);
}

BOOST_AUTO_TEST_CASE(states_that_do_not_fit_are_refused_by_name) {
  check_states_refused({.shapes = {{4, 2}, {4}, {3}}},
                       "exp_avg of parameter number 2 has the shape [3], wanted [2] of 'norm.weight'");
  check_states_refused({.groups = {{0}, {1}}},
                       "1 and 2 parameters were wanted in its groups (parameters with weight decay before biases and "
                       "norms), got 1 and 1");
  check_states_refused({.groups = {{0}, {1}, {2}}}, "one or two groups were wanted, got 3 groups");
  const scratch_folder at;
  const std::vector<wanted_tensor> more{{"l.weight", {4, 2}}, {"l.bias", {4}}};
  check_failed(named({}, at, more), error_kind::mismatch, "1 and 1 parameters were wanted");
}

BOOST_AUTO_TEST_CASE(an_optimizer_that_calls_something_is_a_problem_of_the_states_and_does_nothing) {
  const scratch_folder at;
  const auto command = torch_value::call("posix", "system", {"touch " + (at / "pwned").string()});
  small_folder folder;
  folder.states = torch_value::dict().set(int64_t{0}, torch_value::dict().set("step", command));
  check_failed(named(folder, at), error_kind::bad_input, "optimizer.pt");
  fs::remove(at / "optimizer.pt");
  check_ok(write_torch_archive(at / "optimizer.pt", command, std::vector<torch_storage>()));
  auto source = check_ok(open_source(at.path()));
  check_failed(name_states(*source, small_order), error_kind::bad_input, "'state' and 'param_groups'");
  BOOST_TEST(source->tensors.size() == 3U);
  BOOST_TEST(!fs::exists(at / "pwned"));
}

BOOST_AUTO_TEST_CASE(a_truncated_optimizer_is_a_problem_of_the_states_alone) {
  const scratch_folder at;
  small_folder().write(at);
  fs::resize_file(at / "optimizer.pt", fs::file_size(at / "optimizer.pt") - 30);
  auto source = check_ok(open_source(at.path()));
  check_failed(name_states(*source, small_order), error_kind::bad_input, "optimizer.pt");
  leave_out_states(*source, "broken");
  BOOST_TEST(source->tensors.size() == 3U);
}

BOOST_AUTO_TEST_CASE(an_optimizer_with_more_updates_than_the_trainer_has_steps_is_of_another_save) {
  const scratch_folder behind, ahead;
  const auto skipped = open_source(small_folder{.step = R"({"global_step": 7})"}.write(behind).path());
  check_ok(skipped);
  BOOST_TEST(says(*skipped, "the optimizer counts 6 updates, trainer_state.json 7 steps: the others were skipped, or"),
             remarks_of(*skipped));
  check_failed(open_source(small_folder{.step = R"({"global_step": 5})"}.write(ahead).path()), error_kind::bad_input,
               "the optimizer counts 6 updates, trainer_state.json only 5 steps: they are from different saves; put");
}

BOOST_AUTO_TEST_CASE(a_state_file_without_a_step_is_refused) {
  const auto refused = [](const std::string& text, const std::string& words) {
    const scratch_folder at;
    check_failed(open_source(small_folder{.step = text}.write(at).path()), error_kind::bad_input, words);
  };
  const scratch_folder at;
  const auto source = open_source(small_folder{
      .step = R"({"note": "NaN \" Infinity", "log_history": [{"loss": NaN, "x": -Infinity}], "global_step": 8})"}
                                      .write(at)
                                      .path());
  check_ok(source);
  BOOST_TEST(source->run.steps.value() == 8U);
  refused("{}", "a number of steps was wanted as global_step");
  refused(R"({"global_step": -1})", "a number of steps was wanted");
  refused(R"({"global_step": {"global_step": 3}})", "a number of steps was wanted");
  refused(R"({"global_step": )", "trainer_state.json': broken JSON");
}

BOOST_AUTO_TEST_CASE(an_optimizer_that_was_cut_is_damage_and_the_checkpoint_before_it_is_named_or_used) {
  const scratch_folder at;
  for (const char* name : {"checkpoint-10", "checkpoint-20"}) {
    const scratch_folder made;
    fs::copy(small_folder{}.write(made).path(), at / name, fs::copy_options::recursive);
  }
  const auto cut = at / "checkpoint-20/optimizer.pt";
  fs::resize_file(cut, fs::file_size(cut) / 2);

  check_failed(open_source(at.path(), {.needs_states = true}), error_kind::bad_input,
               "--fallback-to-previous takes checkpoint-10 instead");
  const auto older = check_ok(open_source(at.path(), {.fallback_to_previous = true, .needs_states = true}));
  BOOST_TEST(older->folder == at / "checkpoint-10");

  const auto weights = check_ok(open_source(at.path()));
  BOOST_TEST(weights->folder == at / "checkpoint-20");
  BOOST_TEST_REQUIRE(weights->lost_states.has_value());
  const auto report = check_ok(verify_source(real_files(), *weights));
  BOOST_TEST(report->damages == 1U);
  BOOST_TEST_REQUIRE(report->listed.size() == 1U);
  BOOST_TEST(report->listed[0].file == "optimizer.pt");
  BOOST_TEST(verify_source(real_files(), *older)->damages == 0U);
}

BOOST_AUTO_TEST_CASE(damaged_optimizers_are_read_or_a_problem) {
  const scratch_folder at;
  small_folder().write(at);
  const auto good = scratch_folder::read(at / "optimizer.pt");
  size_t read = 0;
  for_mutations(good, 23, pickle_hints, [&](size_t i, const std::string& broken) {
    fs::remove(at / "optimizer.pt");
    at.write("optimizer.pt", broken);
    const memory_mark mark;
    {
      auto source = open_source(at.path());
      if (source && name_states(*source, small_order) && source->tensors.size() > 3) {
        ++read;
        for (const auto& t : source->tensors) BOOST_TEST(is_read_or_refused(*source, t));
      }
    }
    BOOST_REQUIRE_MESSAGE(mark.taken() <= broken.size() * max_pickle_memory_factor + (size_t{4} << 20), i);
  });
  BOOST_TEST(read > 0U);
  BOOST_TEST(read < mutations());
}

BOOST_AUTO_TEST_CASE(steps_of_an_optimizer_without_counters_are_the_schedules) {
  const scratch_folder at;
  small_folder folder;
  folder.states = torch_value::dict().set(int64_t{0}, torch_value::dict());
  folder.step.clear();
  const auto position = [&](int64_t n) {
    fs::remove(at / "scheduler.bin");
    check_ok(write_torch_archive(at / "scheduler.bin", torch_value::dict().set("last_epoch", n), {}));
  };
  check_ok(named(folder, at));
  fs::remove_all(at / "model.safetensors");
  position(6);
  auto one = check_ok(named(folder, at));
  BOOST_TEST((one->run.steps == 6U && one->run.applied_updates == 6U && one->run.schedule_position == 6));
  BOOST_TEST(says(*one, "scheduler.bin: its position, 6, is used as the number of steps, which no other file states"));
  fs::remove_all(at / "model.safetensors");
  at.write("random_states_0.pkl", "");
  at.write("random_states_1.pkl", "");
  const auto two = check_ok(named(folder, at));
  BOOST_TEST((two->run.steps == 3U && two->run.schedule_position == 3));
  BOOST_TEST(says(*two, "counted once for each of 2 processes"));
  fs::remove_all(at / "model.safetensors");
  position(0);
  const auto none = check_ok(named(folder, at));
  BOOST_TEST(!none->run.steps.has_value());
}

BOOST_AUTO_TEST_CASE(groups_may_count_for_their_parameters_and_counts_may_differ) {
  const auto opened = [](std::vector<int64_t> steps, std::optional<int64_t> of_group) {
    const scratch_folder at;
    small_folder().write(at);
    auto states = torch_value::dict();
    for (size_t i = 0; i < steps.size(); ++i)
      states.set(static_cast<int64_t>(i), torch_value::dict().set("step", steps[i]));
    auto group = torch_value::dict().set("params", torch_value::list({int64_t{0}, int64_t{1}, int64_t{2}}));
    if (of_group) group.set("step", *of_group);
    fs::remove(at / "optimizer.pt");
    fs::remove(at / "trainer_state.json");
    check_ok(write_torch_archive(
        at / "optimizer.pt",
        torch_value::dict().set("state", std::move(states)).set("param_groups", torch_value::list({group})), {}));
    auto out = check_ok(open_source(at.path()));
    return std::move(*out);
  };
  BOOST_TEST((opened({}, 5).run.steps == 5U));
  BOOST_TEST((opened({4}, 5).run.steps == 4U));
  const auto different = opened({50, 2, 50}, std::nullopt);
  BOOST_TEST((different.run.steps == 50U));
  BOOST_TEST(says(different, "optimizer.pt: the optimizer counts 50 updates of one parameter and 2 of 1: every"));
}

BOOST_AUTO_TEST_SUITE_END()
