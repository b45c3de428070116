#include "actors/hands/compute_executor.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "actors/aten_threads.hpp"
#include "actors/hands/flight.hpp"
#include "actors/hands/micro_losses.hpp"
#include "actors/hands/number_uploads.hpp"
#include "actors/hands/tensor_batch.hpp"
#include "actors/hands/transferred.hpp"
#include "actors/hands/unit_roles.hpp"
#include "actors/hands/weights/bound_parameters.hpp"
#include "actors/hands/weights/unit_compressor.hpp"
#include "actors/memory/ledger.hpp"
#include "models/families/language_model.hpp"
#include "models/segment/torch_values.hpp"
#include "plan/group_exchange.hpp"
#include "plan/keeping.hpp"
#include "plan/stages.hpp"

namespace troupe::actors {
namespace {

class compute_executor final : public executor, private models::gradient_sink {
 public:
  compute_executor(std::shared_ptr<models::language_model> model, std::shared_ptr<bound_parameters> parameters,
                   const compute_setup& setup, std::shared_ptr<rank_memory> memory)
      : model_(std::move(model)),
        parameters_(std::move(parameters)),
        memory_(std::move(memory)),
        seed_(setup.seed),
        ledger_owner_(setup.ledger_owner),
        compressor_(setup.compression, setup.masks, parameters_, setup.seed),
        teaching_(setup.teaching),
        host_batches_(setup.own != nullptr),
        numbers_(memory_->device()),
        losses_([this] { return first_nonfinite(p().table(), parameters_->tensors(), flights_); }) {}

  void begin(std::shared_ptr<step_context> context) override {
    keep_to_one_aten_thread();
    attribute_allocations(ledger_owner_);  // the ledger counts all ATen allocations of this thread for the rank
    context_ = std::move(context);
    losses_.begin(context_);
    parameters_->begin(*context_);
    compressor_.begin(context_);
    numbers_.begin(context_->batches.size());
    while (flights_.size() < p().options().accumulation) flights_.emplace_back(p().table());
  }
  core::result<progress> start(const plan::instruction& x) override {
    instruction_ = &x;
    TROUPE_TRY(losses_.look());
    if ((x.kind == plan::kind::forward || x.kind == plan::kind::multiply) && x.micro >= context_->micros())
      return progress::done;
    switch (x.kind) {
      case plan::kind::release:
        parameters_->release(x);
        break;
      case plan::kind::survey:
        parameters_->bind_for(x);
        compressor_.survey(x, slot(x.slots.leaving), slot(x.slots.arrived));
        break;
      case plan::kind::compress:
        parameters_->bind_for(x);
        compressor_.compress(x, slot(x.slots.compressed), slot(x.slots.arrived));
        break;
      case plan::kind::forward:
        parameters_->bind_for(x);
        TROUPE_TRY(forward(x));
        break;
      case plan::kind::multiply:
        parameters_->bind_for(x);
        TROUPE_TRY(multiply(x));
        break;
      case plan::kind::recompute:
        parameters_->bind_for(x);
        TROUPE_TRY(recompute(x));
        break;
      case plan::kind::backward:
        parameters_->bind_for(x);
        TROUPE_TRY(backward(x));
        break;
      case plan::kind::backward_weight:
        backward_weight(x);
        break;
      default:
        return core::fail(core::error_kind::bug, "not for the compute lane");
    }
    return progress::done;
  }
  core::result<std::optional<uint32_t>> advance(uint64_t) override { return std::nullopt; }
  core::result<void> settle() override { return losses_.look(); }

 private:
  [[nodiscard]] const plan::rank_plan& p() const { return context_->plan(); }
  [[nodiscard]] bool training() const { return p().options().mode == plan::mode::train; }
  [[nodiscard]] uint32_t first_of_model() const { return plan::first_of_model(*p().layout); }
  [[nodiscard]] bool goes_back(uint32_t unit) const { return plan::has_backward(*p().layout, unit); }
  [[nodiscard]] bool loss_comes_late() const { return training() && model_->loss_comes_with_backward(); }

  [[nodiscard]] core::result<models::micro_batch> micro_batch(uint32_t micro) {
    const auto& b = *context_->batches[micro];
    // In an evaluation, `order.step` is the number of the first micro-batch, and each micro-batch counts as a step.
    const bool evaluates = p().options().mode == plan::mode::evaluate;
    const uint64_t step = context_->order.step + (evaluates ? micro : 0);
    models::micro_batch out{b.tokens, b.rows, b.columns - 1, b.samples, seed_, step, training()};
    out.document_start = b.document_start;
    out.targets = b.targets;
    out.weights = b.weights;
    out.loss_factor = b.loss_factor;
    out.by_token = &b.by_token;
    out.by_column = &b.by_column;
    out.input_grids = compressor_.input_grids();
    out.micro = evaluates ? 0 : micro;
    out.rank = p().options().mesh.data_at(p().rank);
    out.taught = flights_[micro].learned.last();
    if (host_batches_) out.host = &static_cast<const tensor_batch&>(b).tensors;
    TROUPE_ASSIGN(const auto numbers, numbers_.of(micro, out));
    out.numbers = numbers;
    return out;
  }

  core::result<void> forward(const plan::instruction& x) {
    if (plan::begins_stage(*p().layout, x.subject) && x.segment == 0) {
      hidden_ = {};
      if (const auto& failed = context_->batches[x.micro]->failure) return core::fail(*failed);
    }
    flight& f = flights_[x.micro];
    const bool is_own = x.subject >= first_of_model();  // earlier units are a teacher's
    const bool back = goes_back(x.subject);
    const bool kept = back && p().options().recomputes(x.subject) && !p().options().repeat_exchanges;
    const bool copied = !kept && model_->copies_last_input(x.subject, x.segment);
    TROUPE_TRY(take_input(x, hidden_, copied ? exchanged_slot::read : exchanged_slot::copied));
    if (x.segment == 0) {
      if (x.subject > 0 && ends_in_exchange(p(), x.subject - 1)) learn(f, x.subject - 1, hidden_.first());
      if (!is_own) f.learned.begins(*teaching_, first_of_model(), x.subject, hidden_.first());
      if (x.subject == first_of_model() && p().layout->stage_of_unit[x.subject] == 0) hidden_ = {};
      if (is_own && learns_by_block()) hidden_ = models::values(f.learned.take_asked(x.subject));
    }
    if (is_left_out(x.subject)) return leave_stage(x, f);
    TROUPE_ASSIGN(auto made, micro_batch(x.micro));
    models::micro_batch& batch = made;
    const bool generates = p().options().mode == plan::mode::generate && is_head(p(), x.subject);
    if (generates && x.segment >= p().table().logits_segment()) {
      if (x.segment > p().table().logits_segment()) return {};  // skips the segment of the loss, which generation omits
      const auto logits = model_->next_token_logits(batch, hidden_, parameters_->tensors());
      context_->logits = {{{static_cast<int64_t>(logits.size())}, logits}};
      return {};
    }
    at::Tensor logits;
    if (context_->order.keeps == kept_outputs::scores) batch.logits = &logits;
    if (context_->order.keeps == kept_outputs::log_probabilities) batch.log_probabilities = &logits;
    batch.output = context_->order.output;
    batch.computes_loss = context_->order.computes_loss;
    const bool keep = keeps_runs(x.subject);
    batch.keeps_light = keep && plan::keeps_light(p().table(), p().options(), x.subject, x.segment);
    if (x.slots.window != plan::none) {
      TROUPE_TRY(put_input(x));
    } else if (x.segment == 0 && back) {
      f.unit_inputs[x.subject] = p().options().recomputes(x.subject) ? hidden_ : models::values();
    }
    if (kept && x.segment > 0 && x.slots.arrived != plan::none) f.exchanged[x.subject][x.segment] = hidden_.last();
    const auto& what = plan::exchange_of(*p().layout, x.subject, x.segment, plan::use::forward);
    const bool in_pieces = what.pieces > 1;
    if (in_pieces) {
      batch.first_rows = what.rows_of(0).count;
      hidden_ =
          out_of(slot(x.slots.window), hidden_);  // copies the input: its window may be reused before the last piece
    }
    models::map_target taught_map = map_target_of(f, x.subject, x.segment, teacher_tensors::counting::loss);
    if (taught_map.map.defined()) batch.learned_map = &taught_map;
    at::Tensor map;
    if (gives_map(x)) batch.map = &map;
    auto run = model_->forward(x.subject, x.segment, batch, hidden_, parameters_->tensors());
    if (map.defined()) f.learned.keep_map(*teaching_, first_of_model(), x.subject, map);
    if (batch.learned_map != nullptr && (keep || !back)) f.learned.leave_map(x.subject);
    if (in_pieces) {
      hidden_ = run->outputs().without_last();  // the last output comes in pieces, and the exchange completes it
      if (!back) hidden_ = out_of(slot(x.slots.arrived), hidden_);
      unfinished_ = std::move(run);
      return put_piece(x);
    }
    hidden_ = out_of(slot(x.slots.window), run->outputs());
    // Copies outputs that are in the slot of the input, unless backward follows, which reads that slot again.
    if (!back) hidden_ = out_of(slot(x.slots.arrived), hidden_);
    if (keep) f.runs[x.subject][x.segment] = std::move(run);
    if (ends_unit(p(), x) && !ends_in_exchange(p(), x.subject)) learn(f, x.subject, hidden_.first());
    TROUPE_TRY(leave_stage(x, f));
    // If ranks exchange the outputs, that exchange reads them last, so the segment run that is stored for backward need
    // not keep them.
    const bool exchanged = what.ranks > 1;
    if (keep && exchanged) f.runs[x.subject][x.segment]->release_outputs();
    if (logits.defined()) keep_output(x.micro, logits);
    if (!gives_loss(p(), x)) return {};
    const at::Tensor mean = std::exchange(hidden_, {});
    return loss_comes_late() ? core::result<void>() : losses_.write(x.micro, mean, memory_->device());
  }

  /// True if each block of the model is distilled alone, with the input of the teacher's block as its own input. The
  /// model's first unit and head are then not computed.
  [[nodiscard]] bool learns_by_block() const { return teaching_ && training() && !teaching_->blocks.empty(); }
  [[nodiscard]] bool is_left_out(uint32_t unit) const {
    return learns_by_block() && (unit == first_of_model() || is_head(p(), unit));
  }
  void learn(flight& f, uint32_t unit, const at::Tensor& hidden) {
    if (!teaching_ || !training() || is_head(p(), unit)) return;
    const uint32_t ranks = p().layout->options.sequence_ranks();
    const auto columns = static_cast<double>(context_->batches.front()->columns - 1);
    const double share = ranks == 1 ? 1 : static_cast<double>(hidden.size(1)) * ranks / columns;
    f.learned.ended(*teaching_, first_of_model(), unit, hidden, context_->order.loss_scale, share);
    // Without a backward nothing takes the gradient of the comparison.
    if (unit >= first_of_model() && !goes_back(unit)) (void)f.learned.take_gradient(unit);
  }
  // Writes the output of `x` to its slot. If the next pipeline stage needs the distillation teacher, first appends the
  // teacher's latest hidden state and the sum of the distillation losses so far.
  core::result<void> leave_stage(const plan::instruction& x, flight& f) {
    if (passes_teacher_on(p(), x)) {
      std::vector<at::Tensor> all(hidden_.begin(), hidden_.end());
      all.push_back(*f.learned.last());
      all.push_back(at::scalar_tensor(f.learned.lost(), at::kDouble));
      hidden_ = models::values(std::move(all));
      f.learned.leave_last();
    }
    return put_output(x, hidden_);
  }
  /// Returns the tensors with which the unit of `x` computes, out of the tensors `all` that another pipeline stage has
  /// sent. Passes the distillation teacher's tensors to the code that compares them with the model's.
  models::values own_part(const plan::instruction& x, const models::values& all) {
    if (!plan::carries_teacher(*p().layout) || x.kind == plan::kind::backward) return all;
    const at::Tensor lost = all.last(), taught = all.without_last().last();
    const bool is_first = x.subject == plan::first_forward(*p().layout, p().layout->stage_of_unit[x.subject]);
    if (is_first && x.kind == plan::kind::forward) {
      double so_far = 0;  // host memory: a host computed the number and the fabric moved it
      std::memcpy(&so_far, models::bytes_of(lost), sizeof so_far);
      flights_[x.micro].learned.go_on(so_far, taught);
    }
    return x.subject < first_of_model() ? models::values(taught) : all.without_last().without_last();
  }
  // True if `x` is the forward of a teacher's segment whose attention map is compared with the model's. Attention is in
  // a block's first segment, because a teacher cannot be combined with exchanges within a unit.
  [[nodiscard]] bool gives_map(const plan::instruction& x) const {
    return teaching_ && x.segment == 0 && x.subject < first_of_model() &&
           std::ranges::any_of(teaching_->maps, [&](const auto& pair) { return pair.of_teacher == x.subject; });
  }
  [[nodiscard]] models::map_target map_target_of(flight& f, uint32_t unit, uint32_t segment,
                                                 teacher_tensors::counting what) {
    if (!teaching_ || segment > 0) return {};
    return f.learned.map_of(*teaching_, unit, context_->order.loss_scale, what);
  }

  /// True if the unit's segment runs, which hold the values that backward reads, are stored from forward to backward.
  [[nodiscard]] bool keeps_runs(uint32_t unit) const {
    return goes_back(unit) && (!p().options().recomputes(unit) || unit == first_of_model());
  }

  // Executes `multiply`: computes piece `x.piece` of the rows of the matrix product that ends the latest forward's
  // segment, with the additions after that product, and writes the rows to the slot. After the last piece, stores the
  // segment run if backward needs it.
  core::result<void> multiply(const plan::instruction& x) {
    const auto& what = plan::exchange_of(*p().layout, x.subject, x.segment, plan::use::forward);
    const plan::slice rows = what.rows_of(x.piece);
    unfinished_->multiply(static_cast<int64_t>(rows.first), static_cast<int64_t>(rows.count));
    TROUPE_TRY(put_piece(x));
    if (x.piece + 1 < what.pieces) return {};
    auto run = std::move(unfinished_);
    if (!keeps_runs(x.subject)) return {};
    run->release_outputs();
    flights_[x.micro].runs[x.subject][x.segment] = std::move(run);
    return {};
  }
  core::result<void> put_piece(const plan::instruction& x) {
    const auto& what = plan::exchange_of(*p().layout, x.subject, x.segment, plan::use::forward);
    const plan::slice rows = what.rows_of(x.piece);
    return put_rows(unfinished_->outputs().last(), static_cast<int64_t>(rows.first), static_cast<int64_t>(rows.count),
                    slot(x.slots.leaving), p().table().units[x.subject].name);
  }

  void keep_output(uint32_t micro, const at::Tensor& output) {
    const at::Tensor wide = output.to(at::kCPU, at::kFloat).contiguous();
    context_->logits.resize(context_->micros());
    const auto* values = wide.const_data_ptr<float>();
    context_->logits[micro] = {wide.sizes().vec(), {values, values + wide.numel()}};
  }

  // Copies the unit's input, `hidden_`, into the window that `x` names, and makes the unit compute with the copy, so
  // that the tensors that ATen allocated can be freed.
  core::result<void> put_input(const plan::instruction& x) {
    TROUPE_ASSIGN(auto there, flights_[x.micro].windows.put(x.subject, p().table().units[x.subject].name, hidden_,
                                                            slot(x.slots.window)));
    // Frees the bytes of the tensors that were copied into the window. The segment run of the first unit, which is
    // stored for backward, still refers to these tensors as its outputs, but nothing reads their elements any more.
    for (const at::Tensor& t : hidden_) t.set_data(t.new_empty({0}));
    hidden_ = std::move(there);
    return {};
  }

  // Replaces `into` by the input of `x`, if `x.slots.arrived` names a slot. If another pipeline stage has written the
  // slot, it holds all tensors of the input. Otherwise the slot holds one tensor, the input's last, which the ranks of
  // a tensor group have exchanged, and `into` already holds the other tensors of the input. Exchanged tensors are
  // copied out of the slot or read in place: the slot stays reserved only until the reading instruction has ended.
  enum class exchanged_slot : uint8_t { copied, read };
  core::result<void> take_input(const plan::instruction& x, models::values& into, exchanged_slot how) {
    if (x.slots.arrived == plan::none) return {};
    TROUPE_ASSIGN(auto got, transferred(slot(x.slots.arrived)));
    if (is_from_stage(p(), x)) {
      into = own_part(x, got);
      return {};
    }
    std::vector<at::Tensor> all(into.begin(), into.end());  // tensors of the input that were not exchanged
    all.push_back(how == exchanged_slot::read ? got.first() : out_of(slot(x.slots.arrived), got).first());
    into = models::values(std::move(all));
    return {};
  }
  core::result<void> put_output(const plan::instruction& x, models::values& from) {
    if (x.slots.leaving == plan::none) return {};
    const auto& name = p().table().units[x.subject].name;
    const auto parts = parts_of(p(), x);
    const bool is_inner_sum = x.kind != plan::kind::backward && !ends_unit(p(), x);
    if (!parts && !is_inner_sum) return put_transferred(std::exchange(from, {}), slot(x.slots.leaving), name);
    // The ranks of a group exchange the last tensor alone; the next segment reads the others as they are.
    const at::Tensor last = from.last();
    from = from.without_last();
    return parts ? put_parts(last, *parts, slot(x.slots.leaving), name)
                 : put_transferred(last, slot(x.slots.leaving), name);
  }
  [[nodiscard]] std::span<std::byte> slot(uint32_t buffer) const {
    if (buffer == plan::none) return {};
    return {memory_->window(p(), buffer), p().buffers[buffer].bytes};
  }

  // Executes `recompute`: repeats the forward of a whole unit, with stored results of the exchanges between its
  // segments, or of one segment (`x.segment`), whose exchange is an instruction of its own and is repeated, too.
  core::result<void> recompute(const plan::instruction& x) {
    if (is_left_out(x.subject)) return {};
    TROUPE_ASSIGN(auto made, micro_batch(x.micro));
    models::micro_batch& batch = made;
    flight& f = flights_[x.micro];
    const bool at_once = x.segment == plan::none;
    const uint32_t first = at_once ? 0 : x.segment, segments = static_cast<uint32_t>(f.runs[x.subject].size());
    if (first == 0)
      again_ = x.slots.window == plan::none ? std::exchange(f.unit_inputs[x.subject], {})
                                            : f.windows.get(x.subject, memory_->window(p(), x.slots.window));
    const bool copied = !at_once && model_->copies_last_input(x.subject, x.segment);
    if (!(learns_by_block() && is_from_stage(p(), x)))
      TROUPE_TRY(take_input(x, again_, copied ? exchanged_slot::read : exchanged_slot::copied));
    for (uint32_t s = first; s < (at_once ? segments : first + 1); ++s) {
      if (auto exchanged = std::exchange(f.exchanged[x.subject][s], {}); exchanged.defined())
        again_ = again_.with_last(std::move(exchanged));
      batch.keeps_light = plan::keeps_light(p().table(), p().options(), x.subject, s);
      batch.wants_output = !batch.keeps_light;
      models::map_target taught_map = map_target_of(f, x.subject, s, teacher_tensors::counting::no_loss);
      batch.learned_map = taught_map.map.defined() ? &taught_map : nullptr;
      f.runs[x.subject][s] = model_->forward(x.subject, s, batch, again_, parameters_->tensors());
      if (batch.learned_map != nullptr) f.learned.leave_map(x.subject);
      again_ = f.runs[x.subject][s]->outputs();
      if (!batch.wants_output) f.runs[x.subject][s]->release_outputs();
    }
    if (at_once || first + 1 == segments) again_ = {};
    if (x.slots.leaving == plan::none) return {};
    TROUPE_TRY(put_output(x, again_));
    f.runs[x.subject][first]->release_outputs();
    return {};
  }

  core::result<void> backward(const plan::instruction& x) {
    if (is_left_out(x.subject)) return go_back_past(x);
    auto& run = flights_[x.micro].runs[x.subject][x.segment];
    at::Tensor late_loss;
    if (gives_loss(p(), x)) {
      gradient_ = at::scalar_tensor(context_->order.loss_scale, run->output().options());
      if (loss_comes_late()) late_loss = run->output();
    }
    // In a split backward, the weight part later reads the gradient that the input part receives here, so the input
    // part copies the gradient out of its slot.
    const auto how = x.use == plan::use::input ? exchanged_slot::copied : exchanged_slot::read;
    TROUPE_TRY(take_input(x, gradient_, how));
    if (ends_unit(p(), x))
      if (at::Tensor taught_gradient = flights_[x.micro].learned.take_gradient(x.subject); taught_gradient.defined())
        gradient_ = learns_by_block() ? taught_gradient : taught_gradient.add_(gradient_.first());
    if (x.use == plan::use::input) {
      gradient_ = run->backward_input(gradient_);
    } else {
      gradient_ = run->backward(gradient_, *this);
      run.reset();
      compressor_.learned().ended(x.subject, x.segment, p().table(), *this);
    }
    if (late_loss.defined()) {
      const double lost = flights_[x.micro].learned.lost();
      TROUPE_TRY(losses_.write(x.micro, lost == 0 ? late_loss : late_loss.add(lost), memory_->device()));
    }
    if (gives_loss(p(), x)) flights_[x.micro].learned.leave_last();
    if (x.segment == 0 && x.subject == p().table().first_trained_unit()) {
      gradient_ = {};  // the backward of the step ends here: nothing reads the gradient of this input
      return {};
    }
    gradient_ = out_of(slot(x.slots.arrived), gradient_);
    return put_output(x, gradient_);
  }

  // Executes the backward of the head if blocks are distilled alone and the step does not compute it: passes on an
  // empty gradient, and writes the distillation losses to the vote.
  core::result<void> go_back_past(const plan::instruction& x) {
    teacher_tensors& learned = flights_[x.micro].learned;
    gradient_ = {};
    if (gives_loss(p(), x)) {
      learned.leave_last();
      TROUPE_TRY(losses_.write(x.micro, at::scalar_tensor(learned.lost(), at::kDouble), memory_->device()));
    }
    return put_output(x, gradient_);
  }

  void backward_weight(const plan::instruction& x) {
    if (is_left_out(x.subject)) return;
    const auto run = std::exchange(flights_[x.micro].runs[x.subject][x.segment], {});
    run->backward_weight(*this);
    compressor_.learned().ended(x.subject, x.segment, p().table(), *this);
  }

  models::gradient_target target(uint32_t q) override {
    auto out = parameters_->target(q, instruction_->micro, *context_);
    if (const auto* mask = compressor_.mask_of(instruction_->subject, q)) out.kept = *mask;
    out.is_watched = compressor_.learned().learns(instruction_->subject);
    return out;
  }
  void formed(uint32_t q, const at::Tensor& contribution) override {
    compressor_.learned().formed(instruction_->subject, q, contribution, *this);
  }

  // All stages of the rank, which run on one thread, share the model, the parameters and the memory.
  std::shared_ptr<models::language_model> model_;
  std::shared_ptr<bound_parameters> parameters_;
  std::shared_ptr<rank_memory> memory_;
  uint64_t seed_;
  uint32_t ledger_owner_;
  unit_compressor compressor_;
  std::optional<models::teaching> teaching_;
  bool host_batches_;  // true: the model is the host program's, with batches of type tensor_batch
  number_uploads numbers_;
  // Members that only this stage uses.
  std::vector<flight> flights_;  // state of each micro-batch from its forward to its backward, by micro-batch
  models::values hidden_;        // outputs of the latest forward segment, which the stage's next segment reads
  // Run of the latest forward segment while `multiply` instructions compute the pieces of its output; null otherwise.
  std::unique_ptr<models::segment_run> unfinished_;
  models::values again_;     // outputs of the latest recomputed segment, which the unit's next segment reads
  models::values gradient_;  // gradient that the latest backward instruction has computed for its segment's input
  std::shared_ptr<step_context> context_;
  const plan::instruction* instruction_ = nullptr;
  micro_losses losses_;
};

uint32_t first_of_teacher(const core::model_table& table) {
  return static_cast<uint32_t>(std::ranges::find_if(table.parameters, &core::parameter_info::of_teacher) -
                               table.parameters.begin());
}

}  // namespace

core::result<std::vector<std::unique_ptr<executor>>> make_compute_executors(
    const compute_setup& setup, const std::shared_ptr<rank_memory>& memory) {
  const auto& p = memory->plan();
  const models::model_place place{setup.split, p.options().mesh.tensor_at(p.rank), setup.sequence,
                                  p.options().mesh.sequence_at(p.rank)};
  TROUPE_ASSIGN(auto made, setup.own ? setup.own()
                           : setup.teaching
                               ? models::make_taught_model(setup.spec, *setup.teaching, first_of_teacher(p.table()),
                                                           p.options().types.parameter, setup.rows, setup.columns,
                                                           memory->device(), place)
                               : models::make_language_model(setup.spec, p.options().types.parameter, setup.rows,
                                                             setup.columns, memory->device(), place));
  const std::shared_ptr<models::language_model> model = std::move(made);
  auto own = model->own_parameters();
  if (!own.empty())  // adds undefined tensors for scores of masks, which that program does not have
    own.resize(
        static_cast<size_t>(std::ranges::count_if(p.table().parameters, [](const auto& q) { return !q.is_copy(); })));
  const auto copy = std::ranges::find_if(p.table().parameters, &core::parameter_info::is_copy);
  if (copy != p.table().parameters.end())
    model->read_copies(static_cast<uint32_t>(copy - p.table().parameters.begin()));
  const auto parameters = std::make_shared<bound_parameters>(memory, std::move(own));
  std::vector<std::unique_ptr<executor>> out;
  for (uint32_t seat = plan::num_lanes - 1; seat < num_seats(p); ++seat)
    out.push_back(std::make_unique<compute_executor>(model, parameters, setup, memory));
  return out;
}

}  // namespace troupe::actors
