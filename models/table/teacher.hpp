// Distillation: a model (the student) and its teacher as one table. The teacher's units come first, frozen and run
// forward only; its head is in the same unit as the student's, where their logits are compared. Owns that form; leaves
// the comparisons to models/layers/. No Torch.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_table.hpp"
#include "kernels/layers/distillation.hpp"
#include "models/table/model_spec.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// A unit of the student and the unit of the teacher that it is compared with, each counted from its model's embedding,
/// which is unit 0.
struct unit_pair {
  uint32_t unit = 0, of_teacher = 0;
};

/// A block of the student that is trained separately: it learns to compute the same as units `first` to `last` of the
/// teacher, from the input of unit `first`. Units are counted from their model's embedding, which is unit 0.
struct block_pair {
  uint32_t unit = 0, first = 0, last = 0;
};

struct teaching {  ///< settings of the training of a student by a teacher
  model_spec teacher;
  tensor_split split = {};  ///< how the teacher is divided over the tensor-parallel ranks that compute the student
  kernels::distillation_terms terms;
  /// Weights of the losses: mean squared differences of hidden states and of attention maps.
  double hidden_states = 0, attention = 0;
  /// Units whose hidden states or attention maps are compared, in ascending order of units.
  std::vector<unit_pair> hidden, maps;
  /// Blocks that are each trained separately against blocks of the teacher (layer-by-layer distillation), in ascending
  /// order. If there are any, no other loss is trained, and embedding and head stay unchanged.
  std::vector<block_pair> blocks = {};
};

/// Returns which hidden states are compared for a student of `layers` layers, including that of the embedding. With
/// `teacher_layer`, whose first number is not 0, layer i is compared with the teacher's layer `teacher_layer[i]`, and
/// the embedding with the teacher's unit `teacher_layer[0]` - 1 (unit 0 is its embedding). Without such a list, every
/// unit is compared with every k-th of the teacher's, k = teacher_layers / layers rounded down. Source:
/// DeepSpeedExamples, compression/bert.
std::vector<unit_pair> hidden_pairs(uint32_t layers, uint32_t teacher_layers,
                                    const std::vector<uint64_t>& teacher_layer);
/// Returns which attention maps are compared; only blocks have them. Layer i is compared with the teacher's layer
/// `teacher_layer[i]`; without such a list, with the last of the k layers that hidden_pairs() assigns to it.
std::vector<unit_pair> map_pairs(uint32_t layers, uint32_t teacher_layers, const std::vector<uint64_t>& teacher_layer);

/// Returns, for each of `layers` blocks, the teacher's block from which it learns separately: the one that
/// `teacher_layer` names, or, without such a list, the next k = teacher_layers / layers of the teacher's blocks.
/// Source: ZeroQuant's layer-by-layer distillation, arXiv:2206.01861, section 4.3.
std::vector<block_pair> block_pairs(uint32_t layers, uint32_t teacher_layers,
                                    const std::vector<uint64_t>& teacher_layer);

/// Returns, for each unit of the teacher except its head, the unit of the student, counted from its embedding, whose
/// pipeline stage computes it. Units that are compared are in one stage; if none are compared, blocks at the same
/// relative depth are. Ascending; empty if the order of the compared units does not allow that.
std::vector<uint32_t> units_beside(const teaching& by, uint32_t layers);

/// Prefix of the names of a teacher's parameters and layers in the joint table.
inline constexpr const char* teacher_prefix = "teacher.";

/// Returns the joint table of the student `model` and its teacher: the teacher's units come first, except its head,
/// which becomes a part of the student's head. The student's parameters keep their numbers; the teacher's follow,
/// frozen. Both have the same vocabulary and the same micro-batch of rows x columns tokens, and their parameters and
/// activations have `element_bytes` bytes per element, and both heads must be computed in row tiles. If `model` is the
/// table with which one rank computes, the teacher is divided by `split` and `sequence`.
core::model_table with_teacher(core::model_table model, const teaching& by, uint64_t rows, uint64_t columns,
                               uint64_t element_bytes, const tensor_split& split = {},
                               const sequence_split& sequence = {});

/// Returns the joint table without the parameters of the teacher, which checkpoints do not save; the teacher's units
/// remain.
core::model_table without_teacher(core::model_table table);

}  // namespace troupe::models
