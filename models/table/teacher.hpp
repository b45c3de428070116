// A model with a teacher as one table: the teacher's units in front, frozen and run forward alone, and its head beside
// the model's own, where the two are compared. Owns that form; what is compared is layers/tiled_loss.cpp's. No Torch.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_table.hpp"
#include "kernels/layers/distillation.hpp"
#include "models/table/model_spec.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// A unit of the model that is compared with a unit of its teacher; both counted from their embedding.
struct unit_pair {
  uint32_t unit = 0, of_teacher = 0;
};

/// A block of the model that learns alone, for what units of the teacher make of what the first of them takes; all
/// counted from their embedding.
struct block_lesson {
  uint32_t unit = 0, first = 0, last = 0;
};

struct teaching {  ///< what a model learns from another one
  model_spec teacher;
  tensor_split split = {};  ///< of the teacher, over the ranks that its student is cut over
  kernels::distillation_terms terms;
  double hidden_states = 0, attention = 0;  ///< weights of each mean squared difference of outputs and attention maps
  std::vector<unit_pair> hidden, maps;      ///< that are compared, by unit, ascending
  /// By unit; where there are any, nothing else is learned, and the model's ends stay as they are.
  std::vector<block_lesson> blocks = {};
};

/// The pairs for a model of `layers` layers, the embedding's among them: with layer i beside `teacher_layer[i]`, the
/// first of which is not 0, and the embedding beside the layer in front of that one; or, without such a list, with
/// every k-th of the teacher's, k = teacher_layers / layers rounded down. Source: DeepSpeedExamples, compression/bert.
std::vector<unit_pair> hidden_pairs(uint32_t layers, uint32_t teacher_layers,
                                    const std::vector<uint64_t>& teacher_layer);
/// The same for attention maps, which blocks alone have: every k-th is the last of its k.
std::vector<unit_pair> map_pairs(uint32_t layers, uint32_t teacher_layers, const std::vector<uint64_t>& teacher_layer);

/// For each of `layers` blocks the teacher's block that `teacher_layer` names, or, without such a list, the next k of
/// them. Source: ZeroQuant's layer-by-layer distillation, arXiv:2206.01861, section 4.3.
std::vector<block_lesson> block_lessons(uint32_t layers, uint32_t teacher_layers,
                                        const std::vector<uint64_t>& teacher_layer);

/// [unit of the teacher, without its head] The unit of the model, counted from its embedding, with which it is computed
/// where a pipeline has several stages: units that are compared are in one; without any, blocks at the same share of
/// the depth are. Ascending; empty where the order of what is compared allows none.
std::vector<uint32_t> units_beside(const teaching& by, uint32_t layers);

/// What stands before the names of a teacher's parameters, layers and units.
inline constexpr const char* teacher_prefix = "teacher.";

/// `model` behind the units of its teacher, of which the last one, its head, becomes a part of the model's own. The
/// model's parameters keep their numbers, the teacher's stand behind them, frozen. Both are of the same micro-batch of
/// rows x columns tokens of `element_bytes` each and of one vocabulary, and both heads are in row tiles. Where `model`
/// is what a rank computes with, the teacher is cut as said.
core::model_table with_teacher(core::model_table model, const teaching& by, uint64_t rows, uint64_t columns,
                               uint64_t element_bytes, const tensor_split& split = {},
                               const sequence_split& sequence = {});

/// The parameters of the model itself.
core::model_table without_teacher(core::model_table table);

}  // namespace troupe::models
