#include "actors/saving/save_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "checkpoint/commit/retention.hpp"
#include "checkpoint/native/shard.hpp"
#include "core/clock.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::actors {
namespace {

core::error failure_of(const std::exception& e) {
  return {core::error_kind::bug, std::string("the save was cut off: ") + e.what()};
}

/// Sends the result of a part to the process that leads the save and waits for it. If memory for the message is missing
/// twice, the exception ends this process, so that the other processes can go on without it.
void tell_surely(const save_job::tell_part& tell, const part_result& part) noexcept {
  try {
    tell(part);
  } catch (const std::exception&) {
    tell(part);
  }
}

}  // namespace

core::result<std::shared_ptr<save_job>> save_job::begin(storage::file_system& files, save_request request,
                                                        checkpoint::run_state run, plan::rank_plans plans,
                                                        std::shared_ptr<const job::optimizer_groups> groups,
                                                        job::chosen_tensor tensor, ranks_here here) {
  save_content content(plans, std::move(groups), std::move(tensor), request.exclude_frozen_parameters);
  uint64_t needed_bytes = 0;
  for (uint32_t r = 0; r < content.ranks(); ++r) needed_bytes += content.file_bytes(r);
  const auto latest = request.save_latest ? checkpoint::latest_update::always : checkpoint::latest_update::if_replaced;
  TROUPE_ASSIGN(auto save, checkpoint::checkpoint_save::begin(files, request.root, run.step, needed_bytes,
                                                              storage::random_save_id(), {request.tag, latest}));
  if (here.empty()) here.assign(plans.size(), true);
  const auto place = save.place();
  return std::shared_ptr<save_job>(new save_job(place, std::move(save), std::move(request), std::move(run),
                                                std::move(content), std::move(here), {}));
}

std::shared_ptr<save_job> save_job::join(storage::file_system& files, const save_invitation& invitation,
                                         const save_request& request, uint64_t step, plan::rank_plans plans,
                                         job::chosen_tensor tensor, ranks_here here, tell_part tell) {
  save_content content(plans, nullptr, std::move(tensor), request.exclude_frozen_parameters);
  checkpoint::run_state run;
  run.step = step;
  return std::shared_ptr<save_job>(new save_job({&files, invitation.working, invitation.save_id}, std::nullopt, request,
                                                std::move(run), std::move(content), std::move(here), std::move(tell)));
}

save_job::save_job(checkpoint::save_place place, std::optional<checkpoint::checkpoint_save> leads, save_request request,
                   checkpoint::run_state run, save_content content, ranks_here here, tell_part tell)
    : place_(std::move(place)),
      leads_(std::move(leads)),
      request_(std::move(request)),
      run_(std::move(run)),
      content_(std::move(content)),
      here_(std::move(here)),
      tell_(std::move(tell)),
      parts_(content_.ranks()),
      began_ns_(core::now_ns()),
      begun_(content_.ranks(), false) {
  assert(here_.size() == content_.ranks());
  for (uint32_t r = 0; r < content_.ranks(); ++r) {
    parts_[r].rank = r;
    parts_[r].digests.resize(content_.blocks(r).size());
    if (leads_ || here_[r])
      ++parts_left_;
    else
      begun_[r] = true;  // only the leading process waits for the parts of ranks in other processes
  }
  assert(parts_left_ > 0);
  report_.step = run_.step;
}

bool save_job::is_over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

save_report save_job::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return over_; });
  return report_;
}

bool save_job::part_begun(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  const bool mine = !begun_[rank];
  begun_[rank] = true;
  return mine;
}

void save_job::abandon(const core::error& why) {
  const auto kind = why.kind == core::error_kind::peer_lost ? core::error_kind::peer_lost : core::error_kind::stopped;
  for (uint32_t r = 0; r < content_.ranks(); ++r) {
    if (!part_begun(r)) continue;
    parts_[r].failure = {kind, "it was cut off: " + why.text};
    part_ended(r);
  }
}

core::result<void> save_job::take_part(part_result part) {
  const uint32_t rank = part.rank;
  if (rank >= content_.ranks() || here_[rank])
    return core::fail(core::error_kind::bad_input,
                      fmt::format("a save's part of rank {}: wanted one of a rank that another process has", rank));
  if (!part_begun(rank)) return {};
  if (!part.failure)
    if (auto ok = content_.check(part); !ok) part.failure = ok.error();
  parts_[rank] = std::move(part);
  part_ended(rank);
  return {};
}

void save_job::part_ended(uint32_t rank) {
  auto& part = parts_[rank];
  if (part.failure) {
    part.file_bytes = 0;
    part.digests.clear();
  }
  if (tell_) tell_surely(tell_, part);
  bool good = false;
  {
    const std::lock_guard lock(mutex_);
    if (part.failure && !report_.failure) report_.failure = part.failure;
    report_.bytes += part.file_bytes;
    report_.waited_seconds = std::max(report_.waited_seconds, part.waited_s);
    if (--parts_left_ > 0) return;
    good = !report_.failure;
  }
  commit_or_remove(good);
}

core::result<void> save_job::remove_older() {
  if (request_.keep_last == 0) return {};
  TROUPE_TRY(checkpoint::apply_retention(*place_.files, request_.root, {request_.keep_last, request_.keep_every}));
  return {};
}

core::result<bool> save_job::prove() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(proved_, true) || !committed_) return false;
  }
  TROUPE_TRY(remove_older());
  return true;
}

// Ends the save: commits the checkpoint and, if its states are proved by now, removes old ones; or removes its files.
// Turns an exception into a failure, because the caller of wait() must be released in any case.
void save_job::commit_or_remove(bool good) {
  core::result<std::filesystem::path> folder;
  std::optional<core::error> failure;
  try {
    if (good && leads_) folder = leads_->commit(content_.manifest_of(run_, parts_));
    if (!folder) failure = folder.error();
    bool removes = false;
    if (good && leads_ && folder) {
      const std::lock_guard lock(mutex_);
      committed_ = true;
      removes = proved_;
    }
    if (removes)
      if (auto ok = remove_older(); !ok) failure = ok.error();
  } catch (const std::exception& e) {
    failure = failure_of(e);
  }
  leads_.reset();  // removes files that were not committed
  // Locks only after the disk operations, so that callers of is_over() do not wait for the disk.
  const std::lock_guard lock(mutex_);
  if (folder) report_.folder = *folder;
  if (failure) report_.failure = std::move(failure);
  report_.seconds = core::seconds_since(began_ns_);
  over_ = true;
  ended_.notify_all();
}

class save_job::part final : public save_part {
 public:
  part(std::shared_ptr<save_job> job, uint32_t rank);
  ~part() override;
  part(const part&) = delete;
  part& operator=(const part&) = delete;

  [[nodiscard]] bool takes(uint32_t b) const override;
  void copy(uint32_t b, std::span<const std::byte> from, std::byte* to) override;
  void fetch(uint32_t b, std::span<std::byte> to,
             const std::function<core::result<void>(std::span<std::byte>)>& read) override;
  void write(uint32_t b, std::span<const std::byte> block) override;
  void settle(uint32_t b) override;
  void end() override;

 private:
  void open();
  /// Returns the piece of block `b` whose digest is the next to be stored.
  [[nodiscard]] const plan::saved_piece& next_piece(uint32_t b) const;
  /// Copies the elements of the next piece of block `b` from `from`, without the padding of the rank's share, to `to`,
  /// which may be the same memory and has the size of the piece with padding; stores the digest.
  void stage_own(uint32_t b, const std::byte* from, std::span<std::byte> to);
  /// Ends the part as failed with `why`, which fails the whole save. Does nothing if the part has ended before.
  void fail(core::error why);
  [[nodiscard]] bool sound() const { return file_.has_value(); }

  std::shared_ptr<save_job> job_;
  part_result& result_;
  uint32_t rank_;
  std::optional<checkpoint::shard_writer> file_;  // file of the part; none: not open yet, or the part has failed
  // [block]: number of the write of the block; none before it begins and after settle() has found it complete.
  std::vector<std::optional<uint64_t>> tickets_;
  bool opened_ = false, ended_ = false;
};

std::unique_ptr<save_part> save_job::begin_part(uint32_t rank) {
  return std::make_unique<part>(shared_from_this(), rank);
}

save_job::part::part(std::shared_ptr<save_job> job, uint32_t rank)
    : job_(std::move(job)), result_(job_->parts_[rank]), rank_(rank), tickets_(job_->content_.blocks(rank).size()) {
  assert(job_->here_[rank]);
  ended_ = !job_->part_begun(rank);
  opened_ = ended_;
}

save_job::part::~part() {
  if (!ended_) fail({core::error_kind::stopped, "the run ended before the checkpoint was copied"});
}

bool save_job::part::takes(uint32_t b) const { return job_->content_.takes(rank_, b); }

void save_job::part::open() {
  opened_ = true;
  auto file = job_->place_.create_shard(rank_, job_->content_.file_bytes(rank_));
  if (!file) return fail(file.error());
  file_.emplace(std::move(*file));
}

void save_job::part::copy(uint32_t b, std::span<const std::byte> from, std::byte* to) {
  if (!opened_) open();
  if (!sound()) return;
  const auto& x = next_piece(b);
  if (job_->content_.own_of(rank_, x).count == x.range.count)
    result_.digests[b].push_back(checkpoint::stage_piece(from, to));
  else
    stage_own(b, from.data(), {to, from.size()});
}

const plan::saved_piece& save_job::part::next_piece(uint32_t b) const {
  return job_->content_.blocks(rank_)[b].pieces[result_.digests[b].size()];
}

void save_job::part::stage_own(uint32_t b, const std::byte* from, std::span<std::byte> to) {
  const auto& x = next_piece(b);
  const uint64_t element_bytes = to.size() / x.range.count;
  uint64_t reached = 0;
  for (const auto& run : job_->content_.own_of(rank_, x).runs) {
    std::memmove(&to[reached], from + (run.local - x.range.first) * element_bytes, run.count * element_bytes);
    reached += run.count * element_bytes;
  }
  std::ranges::fill(to.subspan(reached), std::byte{0});
  (void)checkpoint::stage_piece_in_place(to);  // writes zeros up to the next piece
  result_.digests[b].push_back(storage::digest_of(to.first(reached)));
}

void save_job::part::fetch(uint32_t b, std::span<std::byte> to,
                           const std::function<core::result<void>(std::span<std::byte>)>& read) {
  if (!opened_) open();
  if (!sound()) return;
  if (auto ok = read(to); !ok) return fail(ok.error());
  const auto& x = next_piece(b);
  if (job_->content_.own_of(rank_, x).count == x.range.count)
    result_.digests[b].push_back(checkpoint::stage_piece_in_place(to));
  else
    stage_own(b, to.data(), to);
}

void save_job::part::write(uint32_t b, std::span<const std::byte> block) {
  if (!sound()) return;
  auto ticket = file_->start_block(block);
  if (!ticket) return fail(ticket.error());
  tickets_[b] = *ticket;
}

void save_job::part::settle(uint32_t b) {
  if (!sound() || !tickets_[b]) return;
  if (!file_->is_over(*tickets_[b])) {
    const int64_t begin = core::now_ns();
    auto ok = file_->wait(*tickets_[b]);
    result_.waited_s += core::seconds_since(begin);
    if (!ok) return fail(ok.error());
  }
  tickets_[b].reset();
}

void save_job::part::end() {
  if (ended_) return;
  try {
    if (!opened_) open();
    if (!sound()) return;  // the part has failed, and its error is recorded
    const auto file = file_->finish();
    if (!file) return fail(file.error());
    result_.file_bytes = file->bytes;
  } catch (const std::exception& e) {
    return fail(failure_of(e));
  }
  ended_ = true;
  file_.reset();
  job_->part_ended(rank_);
}

void save_job::part::fail(core::error why) {
  file_.reset();  // waits until no write reads the memory any more
  if (std::exchange(ended_, true)) return;
  result_.failure = std::move(why);
  job_->part_ended(rank_);
}

}  // namespace troupe::actors
