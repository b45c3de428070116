// Tests distillation from a teacher: losses equal those of a LibTorch loop with the same terms, and the run has the
// same bits wherever the states and the teacher are stored.
#include <fmt/format.h>

#include <filesystem>

#include "actors/aten_threads.hpp"
#include "actors/session/session.hpp"
#include "data/batch.hpp"
#include "data/corpus.hpp"
#include "tests/parity/places.hpp"
#include "tests/parity/torch_loop.hpp"
#include "tests/parity/trained_teacher.hpp"

BOOST_AUTO_TEST_SUITE(distillation)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 4;

std::unique_ptr<torch_loop> loop_like(const actors::session& s, const torch_loop_options& options, bool teacher) {
  const std::string prefix = "teacher.";
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, std::vector<float>> weights;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) {
    const auto& p = s.table().parameters[q];
    if (p.of_teacher != teacher) continue;
    const std::string name = teacher ? p.name.substr(prefix.size()) : p.name;
    shapes[name] = p.shape;
    weights[name] = parameter_of(s, q);
  }
  return std::make_unique<torch_loop>(options, shapes, weights);
}

/// Compares eight steps of a two-layer model with those of a LibTorch loop with the same initial weights.
void compare(const settings& taught, int64_t teacher_width, taught_by distilled) {
  constexpr uint64_t global_rows = 12, sequence = 16, seed = 7;
  const actors::one_aten_thread alone;
  const small_job job(two_layers);
  const auto ours =
      job.open(data_2 + stage(3) + taught + settings{"optimizer.params.eps=1.0e-5", "data.validation_fraction=0.1"});
  torch_loop_options of_teacher;
  of_teacher.layers = 3, of_teacher.width = teacher_width, of_teacher.heads = 4;
  const auto asked = loop_like(*ours, of_teacher, true);
  distilled.teacher = asked.get();
  torch_loop_options o;
  o.layers = 2, o.width = 32, o.heads = 4;
  o.lr = 1e-2, o.eps = 1e-5, o.weight_decay = 0.1;
  o.distilled = distilled;
  const auto theirs = loop_like(*ours, o, false);
  data::source_options source;
  source.path = job.folder() / "corpus.txt";
  const auto corpus = *data::corpus::make({{*data::open_tokens(source)}},
                                          {.validation_fraction = 0.1, .sequence = sequence, .seed = seed});
  for (uint64_t i = 0; i < 8; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto batch = data::make_rows(corpus, i * global_rows, global_rows);
    const double wanted = theirs->step(batch.tokens, int64_t{global_rows});
    BOOST_TEST(step_of(*ours).loss == wanted, boost::test_tools::tolerance(1e-6));
  }
  for (uint32_t q = 0; q < ours->table().parameters.size(); ++q) {
    const auto& p = ours->table().parameters[q];
    if (p.of_teacher) continue;
    const auto mine = parameter_of(*ours, q);
    const double difference =
        relative_difference(std::vector<double>(mine.begin(), mine.end()), theirs->weight(p.name));
    BOOST_TEST(difference <= 1e-5, p.name << ": " << difference);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(losses_and_weights_are_those_of_a_loop_that_asks_the_teacher) {
  const trained_teacher teacher(wider_teacher);
  using enum taught_by::divergence;
  for (const auto& [name, kind] :
       {std::pair("forward_kl", forward_kl), std::pair("reverse_kl", reverse_kl), std::pair("jsd", jsd)})
    BOOST_TEST_CONTEXT(name) compare(teacher.taught(name), 48, {nullptr, kind, 0.5, 0.75, 2, 0.3});
}

BOOST_AUTO_TEST_CASE(hidden_states_are_compared_with_those_of_the_layers_that_the_map_names) {
  const trained_teacher teacher(three_layers);
  const settings term = {"distillation.terms.hidden_states=2"};
  taught_by distilled{
      .kind = taught_by::divergence::forward_kl, .cross_entropy = 0.5, .logits = 0.75, .temperature = 2, .beta = 0.3};
  distilled.hidden_states = 2;
  distilled.hidden = {{0, 0}, {1, 1}, {2, 2}};
  compare(teacher.taught() + term, 32,
          distilled);  // the model's two layers learn from the teacher's first two of three
  distilled.hidden = {{0, 0}, {1, 2}, {2, 3}};
  compare(teacher.taught() + term + reduced("[1, 2]"), 32, distilled);
}

BOOST_AUTO_TEST_CASE(attention_maps_are_compared_with_those_of_the_layers_that_the_map_names) {
  const trained_teacher teacher(wider_teacher);  // has the same number of heads as the model
  const settings term = {"distillation.terms.attention=30"};
  taught_by distilled{
      .kind = taught_by::divergence::forward_kl, .cross_entropy = 0.5, .logits = 0.75, .temperature = 2, .beta = 0.3};
  distilled.attention = 30;
  distilled.maps = {{0, 0}, {1, 1}};
  compare(teacher.taught() + term, 48, distilled);
  const trained_teacher as_wide(three_layers);
  distilled.maps = {{0, 0}, {1, 2}};
  compare(as_wide.taught() + term + reduced("[0, 2]"), 32, distilled);
}

BOOST_AUTO_TEST_CASE(a_block_that_learns_alone_takes_what_the_teachers_takes_and_learns_what_that_puts_out) {
  const trained_teacher as_wide(three_layers);
  const settings alone = {"distillation.layer_wise.enabled=true"};
  taught_by distilled;
  distilled.blocks = {{0, 1}, {1, 2}};  // the model's two layers learn from the teacher's first two of three
  compare(as_wide.taught() + alone, 32, distilled);
}

BOOST_AUTO_TEST_CASE(a_run_has_the_same_bits_wherever_the_teacher_and_states_lie) {
  const settings files = states_in_files();
  const settings recomputed = {"activation_checkpointing.enabled=true"};
  const std::vector<settings> places = {
      stage(1),
      stage(2) + recomputed,
      stage(3) + settings{zero + "stage3_prefetch_bucket_size=0"},
      stage(3) + files,
      stage(3) + recomputed + settings{"cluster.offload_activations=cpu"},
      stage(3) + settings{"cluster.early_updates=true"},
      stage(3) + settings{zero + "offload_optimizer.device=cpu", zero + "offload_param.device=cpu"}};
  const auto check = [&](const std::string& model, const std::string& of_teacher, const settings& common) {
    const trained_teacher teacher(of_teacher);
    const small_job job(model);
    const settings all = data_2 + teacher.taught() + common;
    const auto reference = train(job, all + stage(0), steps);
    for (const settings& each : places) BOOST_TEST_CONTEXT(text_of(all + each)) {
        check_same(train(job, all + each, steps), reference);
      }
  };
  check(tiny_gpt2_with_dropout, wider_teacher, {});
  check(tiny_llama, llama_teacher, {"bf16.enabled=true"});
  check(two_layers, three_layers,
        {"distillation.terms.hidden_states=1", "distillation.terms.attention=5", "fp16.enabled=true"});
  check(tiny_llama, llama_teacher_as_wide, {"distillation.terms.hidden_states=1", "distillation.terms.attention=5"});
}

BOOST_AUTO_TEST_CASE(an_evaluation_is_the_models_own_and_its_teacher_has_neither_states_nor_gradients) {
  const trained_teacher teacher(wider_teacher);
  const small_job job(two_layers);
  const settings common = {"data.validation_fraction=0.5", "zero_optimization.stage=1"};
  const auto taught = job.open(common + teacher.taught()), alone = job.open(common);
  BOOST_TEST(taught->evaluate(2).value() == alone->evaluate(2).value());
  const auto loss = step_of(*taught).loss, own = step_of(*alone).loss;
  BOOST_TEST(loss != own);
  BOOST_TEST(taught->evaluate(2).value() != alone->evaluate(2).value());
  const auto with = taught->memory()[0].resident, without = alone->memory()[0].resident;
  BOOST_TEST(with.master == without.master);
  BOOST_TEST(with.moments == without.moments);
  BOOST_TEST(with.gradients == without.gradients);
  BOOST_TEST(with.parameters > without.parameters);
  BOOST_TEST(taught->table().numel() == alone->table().numel());
}

BOOST_AUTO_TEST_CASE(a_run_resumes_with_the_same_bits_and_what_it_writes_is_the_model_alone) {
  const trained_teacher teacher(wider_teacher);
  const small_job job(two_layers);
  const settings all = data_2 + teacher.taught();
  const auto whole = train(job, all + stage(2), 4);
  const auto folder = job.folder().path() / "saved";
  {
    const auto s = job.open(all + stage(2));
    for (uint64_t i = 0; i < 2; ++i) step_of(*s);
    BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
    BOOST_TEST_REQUIRE(s->export_hugging_face((job.folder().path() / "hf").string()).has_value());
  }
  auto again = actors::session::open({.config = job.config(all + stage(3)), .resume = folder});
  BOOST_TEST_REQUIRE(again.has_value());
  for (uint64_t i = 2; i < 4; ++i)
    BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(std::bit_cast<uint64_t>(step_of(**again).loss) == whole.losses[i]);
  // A resumed run refuses a different teacher; the path of the teacher's folder does not matter.
  const trained_teacher another(three_layers);
  const auto refused =
      actors::session::open({.config = job.config(data_2 + another.taught() + stage(2)), .resume = folder});
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.find("and model.teacher is another model") != std::string::npos,
             refused.error().text);
  const auto moved = job.folder().path() / "moved";
  std::filesystem::copy(teacher.folder(), moved, std::filesystem::copy_options::recursive);
  BOOST_TEST(actors::session::open(
                 {.config = job.config(all + settings{"model.teacher=" + moved.string()} + stage(2)), .resume = folder})
                 .has_value());
  // The checkpoint and the export can be opened without the teacher.
  auto alone = actors::session::open({.config = job.config(data_2 + stage(1)), .resume = folder});
  BOOST_TEST(alone.has_value());
  const small_job from("model: {path: hf}\n");
  std::filesystem::copy(job.folder().path() / "hf", from.folder().path() / "hf",
                        std::filesystem::copy_options::recursive);
  BOOST_TEST(from.try_open({}).has_value());
}

BOOST_AUTO_TEST_CASE(a_model_begins_with_the_layers_that_are_named_and_nothing_else_is_read) {
  const trained_teacher teacher(three_layers);
  const small_job job(two_layers);
  std::vector<std::string> said;
  actors::session_hooks hooks;
  hooks.on_warning = [&](const std::string& line) { said.push_back(line); };
  const auto source = small_job("model: {path: " + teacher.folder().string() + "}\n").open({});
  const auto s = actors::session::open(
      job.config(stage(3) + settings{"parallel.data=2", "model.teacher=" + teacher.folder().string()} +
                 reduced("[0, 2]")),
      std::move(hooks));
  BOOST_TEST_REQUIRE(s.has_value());
  uint64_t bytes = 0;
  for (uint32_t q = 0; q < (*s)->table().parameters.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    std::string name = (*s)->table().parameters[q].name;
    if (const auto at = name.find("h.1."); at != std::string::npos) name.replace(at, 4, "h.2.");
    const auto& all = source->table().parameters;
    const auto from = std::ranges::find(all, name, &core::parameter_info::name);
    const bool same = parameter_of(**s, q) == parameter_of(*source, static_cast<uint32_t>(from - all.begin()));
    const bool taken = name != "transformer.wpe.weight";  // the settings' lists of copied modules omit this one
    BOOST_TEST(same == taken, name);
    if (taken) bytes += 4 * from->numel();
  }
  BOOST_TEST_REQUIRE(said.size() == 1U);
  BOOST_TEST(said[0].find(fmt::format("{} bytes read", bytes)) != std::string::npos, said[0]);
}

BOOST_AUTO_TEST_CASE(a_teacher_that_cannot_teach_is_refused_by_name) {
  const trained_teacher teacher(wider_teacher), llama(llama_teacher);
  const small_job job(two_layers);
  const auto refused = [&](const settings& set) {
    const auto s = job.try_open(set);
    return s ? std::string("opened") : s.error().text;
  };
  const auto says = [&](const settings& set, const std::string& text) {
    const std::string said = refused(set);
    BOOST_TEST(said.find(text) != std::string::npos, said);
  };
  const settings taught = teacher.taught();
  says(llama.taught(), "model.teacher: wanted a model of the same family");
  says(taught + settings{"distillation.terms.hidden_states=1"},
       "distillation.terms.hidden_states: the teacher's width (48) differs from the model's (32); set it to 0");
  says(taught + settings{"model.vocab_size=80"}, "model.teacher: wanted the model's vocabulary of 80 tokens, got 96");
  says(taught + settings{"model.teacher=" + job.folder().path().string()}, "model.teacher");
}

BOOST_AUTO_TEST_SUITE_END()
