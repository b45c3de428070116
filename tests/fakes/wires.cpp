#include "tests/fakes/wires.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>

namespace troupe::fabric {

class modelled_wires::mover final : public byte_mover {
 public:
  mover(std::shared_ptr<modelled_wires> all, uint32_t place) : all_(std::move(all)), place_(place) {}

  void send(uint32_t place, const transfer_name& name, std::span<const std::byte> bytes, transfer_end tell) override {
    all_->add({place_, place, name}, [&](transfer& t) {
      t.from = bytes;
      t.tell_sender = std::move(tell);
    });
  }
  void receive(uint32_t place, const transfer_name& name, std::span<std::byte> bytes, transfer_end tell) override {
    all_->add({place, place_, name}, [&](transfer& t) {
      t.to = bytes;
      t.tell_receiver = std::move(tell);
    });
  }
  void note(uint32_t place, std::string text) override { all_->note(place_, place, std::move(text)); }
  void on_note(hearer hear) override {
    const std::lock_guard lock(all_->mutex_);
    all_->hearers_[place_] = std::move(hear);
  }
  void stop(const core::error& why) override { all_->stop(place_, why); }
  [[nodiscard]] moved_bytes moved(uint32_t place) const override {
    const std::lock_guard lock(all_->mutex_);
    const auto bytes = [&](uint32_t from, uint32_t to) {
      const auto found = all_->moved_.find({from, to});
      return found == all_->moved_.end() ? 0 : found->second;
    };
    return {bytes(place_, place), bytes(place, place_)};
  }

 private:
  std::shared_ptr<modelled_wires> all_;
  uint32_t place_;
};

std::shared_ptr<byte_mover> modelled_wires::at(uint32_t place) {
  return std::make_shared<mover>(shared_from_this(), place);
}

void modelled_wires::add(const key& k, const std::function<void(transfer&)>& set) {
  transfer mine;
  set(mine);
  const std::lock_guard lock(mutex_);
  const bool sends = static_cast<bool>(mine.tell_sender);
  const uint32_t here = sends ? k.from : k.to, there = sends ? k.to : k.from;
  if (stopped_.contains(here)) return;
  if (const auto lost = stopped_.find(there); lost != stopped_.end()) {
    words_.push_back({here, sends ? mine.tell_sender : mine.tell_receiver, core::fail(lost->second)});
    return;
  }
  if (used_.contains(k)) throw std::logic_error("a transfer's name is used twice");
  transfer& t = open_[k];
  if ((sends && t.tell_sender) || (!sends && t.tell_receiver)) throw std::logic_error("one end has called twice");
  if (sends) t = {mine.from, t.to, mine.tell_sender, t.tell_receiver};
  if (!sends) t = {t.from, mine.to, t.tell_sender, mine.tell_receiver};
  if (t.tell_sender && t.tell_receiver) {
    if (t.from.size() != t.to.size()) throw std::logic_error("both ends have not the same number of bytes");
    whole_.push_back(k);
  }
}

void modelled_wires::note(uint32_t from, uint32_t to, std::string text) {
  if (text.size() > note_bytes_max) throw std::logic_error("a note is too long");
  const std::lock_guard lock(mutex_);
  if (!stopped_.contains(from) && !stopped_.contains(to)) notes_[{from, to}].push_back(std::move(text));
}

void modelled_wires::move(const key& k) {
  const auto found = open_.find(k);
  transfer& t = found->second;
  if (!t.from.empty()) std::memcpy(t.to.data(), t.from.data(), t.from.size());
  moved_[{k.from, k.to}] += t.from.size();
  words_.push_back({k.from, std::move(t.tell_sender), {}});
  words_.push_back({k.to, std::move(t.tell_receiver), {}});
  used_.insert(k);
  open_.erase(found);
}

bool modelled_wires::step() {
  std::unique_lock lock(mutex_);
  std::vector<std::pair<uint32_t, uint32_t>> with_notes;
  for (const auto& [ends, texts] : notes_)
    if (!texts.empty() && hearers_.contains(ends.second)) with_notes.push_back(ends);
  const size_t all = whole_.size() + words_.size() + with_notes.size();
  if (all == 0) return false;
  size_t drawn = random_() % all;
  if (drawn < whole_.size()) {
    std::swap(whole_[drawn], whole_.back());
    const key k = whole_.back();
    whole_.pop_back();
    move(k);
    return true;
  }
  drawn -= whole_.size();
  std::function<void()> say;
  uint32_t to = 0;
  if (drawn < words_.size()) {
    std::swap(words_[drawn], words_.back());
    to = words_.back().place;
    say = [word = std::move(words_.back())] { word.tell(word.how); };
    words_.pop_back();
  } else {
    const auto ends = with_notes[drawn - words_.size()];
    to = ends.second;
    say = [hear = hearers_[to], from = ends.first, text = std::move(notes_[ends].front())] { hear(from, text); };
    notes_[ends].pop_front();
  }
  ++telling_[to];
  lock.unlock();
  say();
  say = nullptr;
  lock.lock();
  --telling_[to];
  told_.notify_all();
  return true;
}

size_t modelled_wires::under_way() const {
  const std::lock_guard lock(mutex_);
  size_t out = whole_.size() + words_.size();
  for (const auto& [ends, texts] : notes_) out += hearers_.contains(ends.second) ? texts.size() : 0;
  return out;
}

void modelled_wires::stop(uint32_t place, const core::error& why) {
  std::unique_lock lock(mutex_);
  if (!stopped_.emplace(place, why).second) return;
  std::erase_if(words_, [&](const word_to_say& w) { return w.place == place; });
  std::erase_if(whole_, [&](const key& k) { return k.from == place || k.to == place; });
  for (auto it = open_.begin(); it != open_.end();) {
    auto& [k, t] = *it;
    if (k.from != place && k.to != place) {
      ++it;
      continue;
    }
    const uint32_t other = k.from == place ? k.to : k.from;
    auto& tell = k.from == place ? t.tell_receiver : t.tell_sender;
    if (tell) words_.push_back({other, std::move(tell), core::fail(why)});
    it = open_.erase(it);
  }
  std::erase_if(notes_, [&](const auto& x) { return x.first.second == place; });
  hearers_.erase(place);
  told_.wait(lock, [&] { return telling_[place] == 0; });
}

void modelled_wires::lose(uint32_t place, const core::error& why) { stop(place, why); }

}  // namespace troupe::fabric
