// Tests modules that are initialized with layers of deeper modules: by DeepSpeed's rule, in plain modules, in units,
// and in every instance that a session creates.
#include "compression/student_initialization.hpp"

#include <fmt/format.h>
#include <torch/nn/modules/container/modulelist.h>

#include "actors/session/host_model.hpp"
#include "tests/check_ok.hpp"
#include "tests/compression/host_modules.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(student_initialization)

using namespace troupe;
using namespace troupe::tests;

namespace {

namespace nn = torch::nn;

const std::string reduced =
    "layer_reduction: {enabled: true, keep_number_layer: 2, module_name_prefix: blocks, teacher_layer: [1, 3], "
    "other_module_name: [words, head]}";

struct stack : nn::Module {
  explicit stack(int layers) {
    for (int i = 0; i < layers; ++i) blocks->push_back(nn::Linear(6, 6));
  }
  nn::ModuleList blocks = register_module("blocks", nn::ModuleList());
  nn::Linear words = register_module("words", nn::Linear(36, 6)), head = register_module("head", nn::Linear(6, 5)),
             other = register_module("other", nn::Linear(6, 6));
};

models::module_model units_of(int layers, bool by_factories = false) {
  using models::unit;
  std::vector<models::module_unit> out = {unit("flatten", [](const at::Tensor& x) { return x.flatten(1); }),
                                          unit("words", nn::Linear(picture_side * picture_side, 6))};
  for (int i = 0; i < layers; ++i) {
    const auto name = fmt::format("blocks.{}", i);
    const auto make = [] { return nn::Linear(6, 6); };
    out.push_back(by_factories ? unit(name, make) : unit(name, make()));
  }
  out.push_back(unit("head", nn::Linear(6, picture_classes)));
  return {std::move(out), classes_loss()};
}

bool same(const at::Tensor& a, const at::Tensor& b) { return at::equal(a.detach(), b.detach()); }

}  // namespace

BOOST_AUTO_TEST_CASE(layers_are_the_teachers_by_number_and_other_modules_by_name) {
  const stack teacher(4), student(2);
  const at::Tensor other = student.other->weight.detach().clone();
  const auto config = compressing(reduced);
  const auto copied = check_ok(compression::student_initialization(student, teacher, *config));
  BOOST_TEST(*copied == 8U);
  const auto weight = [](const stack& s, size_t i) { return s.blocks->ptr(i)->parameters()[0]; };
  BOOST_TEST(same(weight(student, 0), weight(teacher, 1)));
  BOOST_TEST(same(weight(student, 1), weight(teacher, 3)));
  BOOST_TEST(same(student.words->bias, teacher.words->bias));
  BOOST_TEST(same(student.head->weight, teacher.head->weight));
  BOOST_TEST(same(student.other->weight, other));
  BOOST_TEST(!same(student.other->weight, teacher.other->weight));
  BOOST_TEST(student.head->weight.requires_grad());
}

BOOST_AUTO_TEST_CASE(nothing_is_copied_where_a_layer_does_not_fit) {
  const auto config = compressing(reduced);
  const stack student(2), shallow(3), deep(4);
  const at::Tensor before = student.words->weight.detach().clone();
  const auto refused = compression::student_initialization(student, shallow, *config);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(has(refused.error().text,
                 "own.yaml:6: compression_training.layer_reduction.teacher_layer: wanted layers of the teacher, which "
                 "has 3, counted from 0, got 3"));
  check_failed(compression::student_initialization(stack(3), deep, *config), "wanted the model's 3 layers, got 2");
  BOOST_TEST(same(student.words->weight, before));
  const auto off = check_ok(compression::student_initialization(student, deep, *compressing("")));
  BOOST_TEST(*off == 0U);
}

BOOST_AUTO_TEST_CASE(every_instance_of_a_session_begins_with_the_teachers_layers) {
  const auto teacher = [] { return units_of(4); };
  const auto start = [&](bool by_factories, const std::string& keys) {
    auto ready = compression::init_compression(
        {[by_factories] { return units_of(2, by_factories); }, &picture_batch, &picture_batch},
        compressing(reduced, keys), teacher);
    BOOST_REQUIRE_MESSAGE(ready.has_value(), (ready ? "" : ready.error().text));
    auto s = check_ok(actors::session::open(std::move(*ready)));
    models::module_model mine = units_of(2);
    BOOST_TEST_REQUIRE(actors::copy_weights(**s, mine).has_value());
    std::vector<at::Tensor> out;
    for (const auto& u : mine.units)
      if (u.module)
        for (const auto& p : u.module->parameters()) out.push_back(p.detach().clone());
    step_of(**s);
    return out;
  };
  const auto whole = start(false, "");
  BOOST_TEST_REQUIRE(whole.size() == 8U);
  BOOST_TEST(!same(whole[2], whole[4]));
  for (const auto& [factories, keys] : {std::pair(true, "parallel: {data: 2}\nzero_optimization: {stage: 3}\n"),
                                        std::pair(true, "parallel: {pipeline: 2}\nzero_optimization: {stage: 1}\n")}) {
    const auto same_layers = start(factories, keys);
    for (size_t i = 0; i < whole.size(); ++i) BOOST_TEST(same(whole[i], same_layers[i]), "parameter " << i);
  }
}

BOOST_AUTO_TEST_CASE(a_teacher_goes_with_layer_reduction_and_not_without) {
  const auto student = [] { return units_of(2); };
  const auto refusal = [&](const std::string& section, const models::module_factory& teacher) {
    const auto ready =
        compression::init_compression({student, &picture_batch, &picture_batch}, compressing(section), teacher);
    return ready ? std::string("taken") : ready.error().text;
  };
  BOOST_TEST(
      has(refusal(reduced, {}), "layer_reduction.enabled: requires a teacher that provides the model's first layers"));
  BOOST_TEST(has(refusal(quantised("4", "head"), [] { return units_of(4); }),
                 "a teacher requires compression_training.layer_reduction"));
  BOOST_TEST(has(refusal("", {}), "init_compression requires an enabled technique, got none"));
  BOOST_TEST(has(refusal(quantised("4", "nowhere"), {}), "own.yaml:6: compression_training.weight_quantization"));
  check_failed(actors::session::open({.config = compressing(reduced),
                                      .model = actors::own_model({student, &picture_batch, &picture_batch})}),
               "compression::init_compression or student_initialization, which copies the layers");
}

BOOST_AUTO_TEST_SUITE_END()
