// Tests a model's parameters after pruning masks are made permanent: which rows and columns are removed, and which
// modules are refused.
#include "job/compression/clean.hpp"

#include <boost/test/unit_test.hpp>

#include "config/load.hpp"
#include "job/compression/clean_values.hpp"
#include "job/compression/related_modules.hpp"
#include "kernels/compress/pruning.hpp"
#include "models/table/model_spec.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(clean)

using namespace troupe;
using troupe::tests::check_failed;
using troupe::tests::check_ok;
using troupe::tests::has;

namespace {

const std::string gpt2 = R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_inner": 12,
                             "n_positions": 8, "vocab_size": 32})";
const std::string llama = R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 12,
                              "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 2, "vocab_size": 32,
                              "max_position_embeddings": 8, "tie_word_embeddings": true})";

core::model_table table_of(const std::string& json) {
  return models::make_model_table(models::parse_model_spec(json).value(), 1, 1, 4);
}

config::job_config config_of(const std::string& json, const std::string& compression) {
  auto keys = json;
  std::erase(keys, '\n');
  const auto read = config::load_text("model: " + keys +
                                          "\ndata: {text: corpus.txt}\nsteps: 1\ntrain_micro_batch_size_per_gpu: 1\n"
                                          "compression_training: {" +
                                          compression + "}\n",
                                      "job.yaml", ".");
  BOOST_REQUIRE_MESSAGE(read.has_value(), (read ? "" : config::render(read.error())));
  return read->config;
}

std::string rows_pruned(const std::string& modules, const std::string& related) {
  return "row_pruning: {shared_parameters: {enabled: true, schedule_offset: 0}, different_groups: {mlp: {params: "
         "{dense_ratio: 0.5}, modules: [" +
         modules + "], related_modules: [[" + related + "]]}}}";
}

/// Returns a mask that keeps every second entry, beginning with the first.
std::optional<kernels::mask_bits> every_second(const job::pruned_module& m) {
  std::vector<uint8_t> keep(m.scores());
  for (size_t i = 0; i < keep.size(); i += 2) keep[i] = 1;
  return kernels::packed_mask(keep);
}

std::string refused(const std::string& json, const std::string& compression) {
  const auto done = job::plan_cleaning(config_of(json, compression), table_of(json), 1, every_second);
  return done ? std::string("taken") : done.error().text;
}

const job::cleaned_parameter* find(const job::cleaning& c, const std::string& name) {
  const auto at = std::ranges::find(c.parameters, name, &job::cleaned_parameter::name);
  return at == c.parameters.end() ? nullptr : &*at;
}
const std::vector<uint64_t> half{0, 2, 4, 6, 8, 10};

}  // namespace

BOOST_AUTO_TEST_CASE(rows_go_from_a_module_and_its_bias_and_columns_from_the_one_that_takes_them) {
  const auto done = check_ok(job::plan_cleaning(config_of(gpt2, rows_pruned("'mlp\\.c_fc'", "'mlp\\.c_proj'")),
                                                table_of(gpt2), 1, every_second));
  for (const std::string block : {"transformer.h.0.mlp.", "transformer.h.1.mlp."}) {
    // GPT-2 stores weights as (in, out), so outputs are columns.
    BOOST_TEST((find(**done, block + "c_fc.weight")->kept_columns == half));
    BOOST_TEST(find(**done, block + "c_fc.weight")->kept_rows.empty());
    BOOST_TEST((find(**done, block + "c_fc.bias")->kept_rows == half));
    BOOST_TEST((find(**done, block + "c_proj.weight")->kept_rows == half));
    BOOST_TEST(find(**done, block + "c_proj.bias") == nullptr);
  }
  BOOST_TEST((*done)->inner.value() == 6U);
}

BOOST_AUTO_TEST_CASE(a_module_beside_it_loses_the_same_rows) {
  const auto done = check_ok(job::plan_cleaning(config_of(llama, rows_pruned("gate_proj", "up_proj, down_proj")),
                                                table_of(llama), 1, every_second));
  const std::string mlp = "model.layers.0.mlp.";
  BOOST_TEST((find(**done, mlp + "gate_proj.weight")->kept_rows == half));
  BOOST_TEST((find(**done, mlp + "up_proj.weight")->kept_rows == half));
  BOOST_TEST((find(**done, mlp + "down_proj.weight")->kept_columns == half));
}

BOOST_AUTO_TEST_CASE(heads_go_from_queries_keys_values_and_the_projection_behind_them) {
  const auto done = check_ok(job::plan_cleaning(
      config_of(llama,
                "head_pruning: {shared_parameters: {enabled: true, method: topk, num_heads: 4, "
                "schedule_offset: 0}, different_groups: {all: {params: {dense_ratio: 0.5}, modules: [o_proj], "
                "related_modules: [[q_proj, k_proj, v_proj]]}}}"),
      table_of(llama), 1, every_second));
  const std::string attention = "model.layers.0.self_attn.";
  const std::vector<uint64_t> kept{0, 1, 4, 5};
  for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight"})
    BOOST_TEST((find(**done, attention + name)->kept_rows == kept));
  BOOST_TEST((find(**done, attention + "o_proj.weight")->kept_columns == kept));
  BOOST_TEST((*done)->heads.value() == 2U);
  BOOST_TEST((*done)->head_width.value() == 2U);
}

// DeepSpeed divides [q; k; v] as one matrix into equal blocks, which removes other rows.
BOOST_AUTO_TEST_CASE(a_packed_weight_is_cut_head_by_head_inside_queries_keys_and_values) {
  core::layer_info l;
  l.out = 24;
  l.parts = {{core::part_role::query, 8}, {core::part_role::key, 8}, {core::part_role::value, 8}};
  const auto rows = job::rows_of_heads(l, kernels::packed_mask(std::vector<uint8_t>{1, 0, 0, 1}), 4);
  BOOST_TEST((rows == std::vector<uint64_t>{0, 1, 6, 7, 8, 9, 14, 15, 16, 17, 22, 23}));
  l.kv_heads = 2;
  BOOST_TEST(job::rows_of_heads(l, kernels::packed_mask(std::vector<uint8_t>{1, 0, 0, 1}), 4).empty());
}

// The score 1.001 is 1 in bf16, and of equal scores the first is kept.
BOOST_AUTO_TEST_CASE(scores_keep_what_they_keep_in_the_type_that_a_run_computes_with) {
  const std::vector<float> scores{0.5F, 1.0F, 1.001F, 0.25F};
  BOOST_TEST(kernels::is_kept(job::mask_of_scores(scores, 1, core::dtype::f32), 2));
  BOOST_TEST(kernels::is_kept(job::mask_of_scores(scores, 1, core::dtype::bf16), 1));
}

BOOST_AUTO_TEST_CASE(what_has_not_begun_is_not_made_permanent) {
  auto text = rows_pruned("'mlp\\.c_fc'", "'mlp\\.c_proj'");
  text.replace(text.find("schedule_offset: 0"), 18, "schedule_offset: 9");
  const auto done = check_ok(job::plan_cleaning(config_of(gpt2, text), table_of(gpt2), 8, every_second));
  BOOST_TEST((*done)->modules.empty());
}

BOOST_AUTO_TEST_CASE(snip_momentum_of_more_than_a_checkpoint_holds_is_refused_before_a_run) {
  const std::string large = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 2048, "n_head": 2, "n_positions": 8,
                                "vocab_size": 32})";
  const auto chosen =
      job::choose_pruning(config_of(large,
                                    "sparse_pruning: {shared_parameters: {enabled: true, method: snip_momentum}, "
                                    "different_groups: {all: {params: {dense_ratio: 0.5}, modules: [mlp]}}}"),
                          table_of(large));
  BOOST_TEST_REQUIRE(!chosen.has_value());
  BOOST_TEST(has(chosen.error().text,
                 "job.yaml:5: compression_training.sparse_pruning.shared_parameters.method: wanted snip_momentum on at "
                 "most 30000000 elements, because a checkpoint stores a score for each, got 33554432"));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_with_the_module) {
  BOOST_TEST(has(refused(gpt2, rows_pruned("'mlp\\.c_fc'", "'attn\\.c_proj'")),
                 "wanted a module that takes the 12 rows of transformer.h.0.mlp.c_fc, got "
                 "transformer.h.0.attn.c_proj, which takes 8"));
  BOOST_TEST(has(refused(gpt2, rows_pruned("'mlp\\.c_fc'", "nowhere")),
                 "wanted a pattern that matches a module related to transformer.h.0.mlp.c_fc, got none for 'nowhere'"));
  BOOST_TEST(has(refused(gpt2, rows_pruned("'h\\.0\\.mlp\\.c_fc'", "'mlp\\.c_proj'")),
                 "wanted the same number of rows in all 2 blocks, as config.json has one for all, got some in 1"));
  BOOST_TEST(has(refused(gpt2,
                         "sparse_pruning: {shared_parameters: {enabled: true, schedule_offset: 0}, "
                         "different_groups: {all: {params: {dense_ratio: 0.5}, modules: [lm_head]}}}"),
                 "wanted weights of a single module, because they are changed permanently, got that of lm_head, which "
                 "transformer.wte also reads"));
  // Before a run, check_related() refuses the same modules, except that another module may read the weights.
  const auto at_start = [](const std::string& compression) {
    const auto ok = job::check_related(config_of(gpt2, compression), table_of(gpt2));
    return ok ? std::string("taken") : ok.error().text;
  };
  BOOST_TEST(
      has(at_start(rows_pruned("'mlp\\.c_fc'", "'attn\\.c_proj'")), "job.yaml:5: compression_training.row_pruning"));
  BOOST_TEST(at_start(rows_pruned("'mlp\\.c_fc'", "'mlp\\.c_proj'")) == "taken");
  const auto no_mask = [](const job::pruned_module&) { return std::optional<kernels::mask_bits>(); };
  check_failed(
      job::plan_cleaning(config_of(gpt2, rows_pruned("'mlp\\.c_fc'", "'mlp\\.c_proj'")), table_of(gpt2), 1, no_mask),
      "wanted the mask of transformer.h.0.mlp.c_fc, the checkpoint has none");
}

BOOST_AUTO_TEST_CASE(every_pruned_module_of_many_has_the_related_module_of_its_own_unit) {
  const std::string deep = R"({"model_type": "gpt2", "n_layer": 30, "n_embd": 8, "n_head": 2, "n_inner": 12,
                               "n_positions": 8, "vocab_size": 32})";
  const auto config = config_of(deep, rows_pruned("'mlp\\.c_fc'", "'mlp\\.c_proj'"));
  const auto table = table_of(deep);
  const auto pruned = check_ok(job::choose_pruning(config, table));
  BOOST_TEST_REQUIRE(pruned->size() == 30U);
  job::module_pairs pairs(*pruned, table);
  for (const auto& m : *pruned) {
    const auto with_it = check_ok(pairs.related(m, config.compression.rows.groups.front(), job::pairing_reach::model));
    BOOST_TEST_REQUIRE(with_it->size() == 1U);
    BOOST_TEST(with_it->front()->unit == m.unit);
  }
}

BOOST_AUTO_TEST_SUITE_END()
