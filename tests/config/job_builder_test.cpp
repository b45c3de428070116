// Tests that settings from a program are those of a file with the same keys and values: equal configurations, and equal
// sentences about what is refused.
#include "config/job_builder.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "config/document/files.hpp"
#include "config/document/scalars.hpp"
#include "tests/config/random_job.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(job_builder)

using namespace troupe::config;
using builder = troupe::config::job_builder;

namespace {

/// Returns the value that a program would give in place of a YAML value: its numbers, booleans and texts are C++'s.
job_value value_of(const node& yaml) {
  switch (yaml.kind) {
    case node_kind::null:
      return job_value::none();
    case node_kind::quoted:
      return yaml.text;
    case node_kind::plain:
      if (const auto flag = boolean_in(yaml)) return *flag;
      if (const auto whole = integer_in(yaml)) {
        if (!whole->negative) return whole->magnitude;
        return -static_cast<int64_t>(whole->magnitude);
      }
      if (const auto number = number_in(yaml)) return *number;
      return yaml.text;
    case node_kind::sequence: {
      std::vector<job_value> items;
      for (const auto& x : yaml.items) items.push_back(value_of(*x));
      return job_value::list(std::move(items));
    }
    case node_kind::mapping:
      break;
  }
  std::vector<std::pair<std::string, job_value>> entries;
  for (const auto& e : yaml.entries) entries.emplace_back(e.name, value_of(*e.value));
  return job_value::mapping(std::move(entries));
}

void set_all(builder& to, const std::string& yaml) {
  const auto read = read_yaml(yaml, 0);
  BOOST_TEST_REQUIRE(read.root != nullptr, yaml);
  for (const auto& e : read.root->entries) to.set(e.name, value_of(*e.value));
}

/// Returns all values of a configuration and its warnings, as text; or the errors, without positions.
std::string outcome_of(const load_result& l) {
  std::string out;
  const auto add = [&](const std::vector<diagnostic>& all) {  // in the order of texts: positions differ
    std::multiset<std::string> lines;
    for (const auto& d : all) lines.insert(d.key + ": " + d.text + "\n");
    for (const auto& line : lines) out += line;
  };
  if (!l) {
    add(l.error());
    return out;
  }
  for (const auto& v : l->values) out += v.key + " = " + v.value + "\n";
  out += l->config.model.hugging_face_json + l->config.output.string() + "\n";
  for (const auto& one : l->given) out += one + " ";
  add(l->warnings);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_jobs_are_those_of_their_files) {
  std::mt19937_64 random(47);
  size_t accepted = 0;
  for (size_t i = 0; i < random_cases() / 3 + 1; ++i) {
    const random_job job = some_job(random);
    const auto from_text = load_text(job.text, "j.yaml", current_folder(), {.overrides = job.overrides});
    builder made(current_folder(), "j");
    set_all(made, job.text);
    for (const auto& one : job.overrides) {
      const size_t equals = one.find('=');
      const auto value = read_yaml(one.substr(equals + 1), 0);
      BOOST_TEST_REQUIRE(value.root != nullptr, one);
      made.set(one.substr(0, equals), value_of(*value.root));
    }
    const auto from_program = made.load();
    accepted += from_program ? 1 : 0;
    BOOST_TEST(outcome_of(from_program) == outcome_of(from_text), fmt::format("{}", i));
  }
  BOOST_TEST(accepted > 0U);
}

BOOST_AUTO_TEST_CASE(typed_values_are_those_of_a_file) {
  builder made("/base", "j");
  made.set("model", job_value::mapping({{"model_type", "gpt2"},
                                        {"n_layer", 2},
                                        {"n_embd", int64_t{64}},
                                        {"n_head", uint8_t{4}},
                                        {"n_positions", 64U},
                                        {"vocab_size", 256}}));
  made.set("data.text", std::filesystem::path("corpus.txt")).set("parallel.data", 2).set("seed", uint64_t{1});
  made.set("steps", 100).set("train_micro_batch_size_per_gpu", 4).set("optimizer.type", "AdamW");
  made.set("optimizer.params.lr", 1e-3).set("optimizer.params.betas", job_value::list({0.9, 0.95}));
  made.set("zero_optimization.stage", 3).set("bf16.enabled", true).set("checkpoint.staging_bytes", "4MiB");
  made.set("parameter_groups", job_value::list({job_value::mapping({{"match", "ln_"}, {"weight_decay", 0.0}})}));
  const std::string yaml =
      "model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}\n"
      "data: {text: corpus.txt}\nparallel: {data: 2}\nseed: 1\nsteps: 100\ntrain_micro_batch_size_per_gpu: 4\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-3, betas: [0.9, 0.95]}}\nzero_optimization: {stage: 3}\n"
      "bf16: {enabled: true}\ncheckpoint: {staging_bytes: 4MiB}\n"
      "parameter_groups: [{match: ln_, weight_decay: 0.0}]\n";
  const auto from_program = made.load();
  BOOST_TEST_REQUIRE(from_program.has_value(), (from_program ? "" : render(from_program.error())));
  BOOST_TEST(outcome_of(from_program) == outcome_of(load_text(yaml, "j.yaml", "/base")));
  BOOST_TEST(effective_yaml(*from_program) == effective_yaml(*load_text(yaml, "j.yaml", "/base")));
}

BOOST_AUTO_TEST_CASE(what_a_file_would_be_refused_for_is_refused_in_the_same_words) {
  // Texts are in quotes, as errors cite those that a program sets.
  const std::vector<std::pair<std::string, std::string>> wrong = {{"zero_optimization.stage", "7"},
                                                                  {"zero_optimisation.stage", "2"},
                                                                  {"steps", "\"5\""},
                                                                  {"steps", "-3"},
                                                                  {"optimizer.params.lr", "true"},
                                                                  {"optimizer.params.betas", "[0.9, 0.95, 0.99]"},
                                                                  {"optimizer.type", "\"adaw\""},
                                                                  {"bf16.enabled", "1"},
                                                                  {"parallel.data", "null"},
                                                                  {"data", "[\"corpus.txt\"]"},
                                                                  {"parameter_groups", "[{match: 3}]"}};
  for (const auto& [key, value] : wrong) {
    builder made("/base", "j");
    set_all(made, smallest);
    made.set(key, value_of(*read_yaml(value, 0).root));
    // The file has the key in its own section, so that it is given once.
    const auto root = overlaid(read_yaml(smallest, 0).root, [&] {
      node_ptr tree = read_yaml(value, 0).root;
      for (std::string rest = key; !rest.empty();) {
        const size_t dot = rest.rfind('.');
        tree = make_mapping(dot == std::string::npos ? rest : rest.substr(dot + 1), {}, tree);
        rest = dot == std::string::npos ? "" : rest.substr(0, dot);
      }
      return tree;
    }());
    const auto from_text = load_text(as_yaml(*root), "j.yaml", "/base"), from_program = made.load();
    BOOST_TEST(outcome_of(from_program) == outcome_of(from_text), key + ": " + value);
  }
  builder one("/base", "j");
  set_all(one, smallest);
  one.set("zero_optimization.stage", 7);
  const auto refused = one.load();
  BOOST_TEST_REQUIRE(!refused.has_value());
  // Eight calls set the keys of the file, and the ninth the wrong value.
  BOOST_TEST(render(refused.error()) ==
             "j:9:1: error: zero_optimization.stage: wanted an integer from 0 to 3, got 7\n");
}

BOOST_AUTO_TEST_CASE(a_later_value_replaces_an_earlier_one_and_mappings_are_merged) {
  builder made("/base", "j");
  set_all(made, smallest);
  made.set("zero_optimization", job_value::mapping({{"reduce_bucket_size", 5000}})).set("steps", 7).set("steps", 8);
  auto l = made.load();
  BOOST_TEST_REQUIRE(l.has_value());
  BOOST_TEST((l->config.zero_optimization.stage == 3U && l->config.steps == 8U));
  made.set("zero_optimization", job_value::none());
  l = made.load();
  BOOST_TEST_REQUIRE(l.has_value());
  BOOST_TEST(l->config.zero_optimization.stage == 0U);
}

BOOST_AUTO_TEST_CASE(what_no_file_can_contain_is_refused) {
  const auto error_of = [](auto change) {
    builder made("/base", "j");
    set_all(made, smallest);
    change(made);
    const auto l = made.load();
    return l ? std::string("accepted") : l.error().front().key + ": " + l.error().front().text;
  };
  for (const std::string key : {"", ".a", "a.", "a..b"})
    BOOST_TEST(error_of([&](builder& b) { b.set(key, 1); }) ==
               key + ": wanted the name of a key, as in optimizer.params.lr");
  BOOST_TEST(error_of([](builder& b) { b.set("output", std::string("a\0b", 3)); }) ==
             "output: wanted text, got a NUL byte");
  BOOST_TEST(error_of([](builder& b) { b.set("output", "\xFF"); }) ==
             "output: wanted UTF-8 text, got another encoding");
  BOOST_TEST(error_of([](builder& b) {
               b.set("fp16", job_value::mapping({{"enabled", true}, {"enabled", false}}));
             }) == "fp16.enabled: given twice in a mapping");
  BOOST_TEST(error_of([](builder& b) {
               job_value deep = 1;
               for (int i = 0; i < deepest_nesting; ++i) deep = job_value::list({deep});
               b.set("steps", deep);
             }) == "steps: wanted at most 64 levels of nesting");
  BOOST_TEST(render(builder("/base", "j").load().error()) ==
             "j:1:1: error: wanted a mapping of keys to values, got nothing\n");
}

BOOST_AUTO_TEST_SUITE_END()
