// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

// WHAT IS PROVED OF A DAMAGED STORE
//
// The judge knows what was acknowledged (`DamageModel`), what was done to the files
// (`PermittedAnomalies`), and what an opener saw. It demands:
//
//   opening    a cache opens, always; a durable store opens or fails with a typed error, and then
//              its data file is what it was
//   values     what is read is the newest acknowledged value of that very key, byte for byte, or
//              nothing, or a typed error
//   the dead   a key that was removed, cleared or has expired gives no value
//   silence    a durable store whose `verify()` finds nothing gives every key its value: nothing is
//              lost without a word
//   new writes what is acknowledged after the damage is there, in this process and the next; what
//              is removed stays away. A cache may lose it with all else, if it says so
//
// What is accepted, and why. An older value with a whole checksum can come back only if its whole
// entry is put where the newest was, as pages that say they belong there: an older copy of data.mdb,
// or an old page copied over a new one with its page number rewritten. No checksum inside the file
// can tell that from the truth, so exactly these two kinds of damage carry the allowance `.older`,
// under which any value the key ever had passes. Every other kind (flips, zeros, garbage, swaps of
// pages as they are, cuts) cannot make an older value whole, and none is accepted. A sound data file
// of another store of ours is believed (data decides over state and shared.table), so under
// `.foreign` the values of the other template pass. Never does a value pass that was not written
// for its key.

/// What may be seen after a certain damage that otherwise would be a violation.
package struct PermittedAnomalies: OptionSet, Sendable {
  package let rawValue: Int
  package init(rawValue: Int) { self.rawValue = rawValue }

  /// Values the key had earlier.
  package static let older = PermittedAnomalies(rawValue: 1)
  /// Values of the other template whose file was put here.
  package static let foreign = PermittedAnomalies(rawValue: 2)
  /// Even a cache may refuse to open: something stands where the gate or the root belongs.
  package static let refusal = PermittedAnomalies(rawValue: 4)
}

/// What one process saw of a damaged store.
package struct DamageObservation: Sendable {
  package enum Opening: Sendable, Equatable {
    case opened
    case refused(StoreError.Code)
    /// An error that is not a `StoreError`.
    case untyped(String)
  }

  package enum Read: Sendable, Equatable {
    case hit([UInt8])
    case miss
    case failed(StoreError.Code)
    case untyped(String)
  }

  package var opening: Opening
  /// The store said that it started empty, or moved, or removed a damaged entry.
  package var isAnnounced = false
  /// `verify()` before anything was read: `nil` when it threw.
  package var findings: Int?
  package var reads: [DamageKey: Read] = [:]
  /// Keys that a process before this one could not read: they may be gone since.
  package var unreadableBefore: Set<DamageKey> = []
  /// Whether data.mdb is what it was before opening. Asked only when opening was refused.
  package var isDataUntouched = true

  package init(opening: Opening) { self.opening = opening }
}

/// Decides whether what was seen may be.
package struct DamageOracle: Sendable {
  package let model: DamageModel
  package let durability: Durability
  package let allowance: PermittedAnomalies
  /// The template whose file was swapped in, with `.foreign`.
  package let foreign: DamageModel?
  /// What this process's own acknowledged writes made of the keys: `nil` is removed.
  package var written: [DamageKey: UInt32?] = [:]
  /// Keys of a namespace whose clearing failed half-way: cleared or not, both is right.
  package var uncertain: Set<DamageKey> = []

  package init(
    model: DamageModel, durability: Durability, allowance: PermittedAnomalies = [],
    foreign: DamageModel? = nil
  ) {
    self.model = model
    self.durability = durability
    self.allowance = allowance
    self.foreign = foreign
  }

  /// Codes with which a damaged store may be refused.
  package static let refusals: Set<StoreError.Code> = [
    .damaged, .durabilityMismatch, .newerFormat, .directory,
  ]
  /// Codes with which a read or a write may fail.
  package static let failures: Set<StoreError.Code> = [.damaged, .unreadableEntry]

  package func judge(_ seen: DamageObservation) -> [String] {
    var violations: [String] = []
    switch seen.opening {
    case .untyped(let text): return ["opening threw what is no StoreError: \(text)"]
    case .refused(let code):
      if durability == .cache, !allowance.contains(.refusal) {
        violations.append("a cache did not open: \(code)")
      } else if !Self.refusals.contains(code), !allowance.contains(.refusal) {
        violations.append("opening failed with \(code)")
      }
      if durability == .durable, !seen.isDataUntouched {
        violations.append("opening was refused, but data.mdb was changed")
      }
      return violations
    case .opened: break
    }
    for key in seen.reads.keys.sorted(by: { "\($0)" < "\($1)" }) {
      if let violation = judge(key, seen.reads[key]!, in: seen) { violations.append(violation) }
    }
    return violations
  }

  private func judge(
    _ key: DamageKey, _ read: DamageObservation.Read, in seen: DamageObservation
  ) -> String? {
    switch read {
    case .untyped(let text): return "\(key): read threw what is no StoreError: \(text)"
    case .failed(let code):
      return Self.failures.contains(code) ? nil : "\(key): reading failed with \(code)"
    case .miss:
      guard durability == .durable, seen.findings == 0, expected(key) != nil,
        !seen.unreadableBefore.contains(key), !uncertain.contains(key),
        allowance.isDisjoint(with: [.older, .foreign])
      else { return nil }
      return "\(key): lost in silence: verify() finds nothing, and value \(expected(key)!) is gone"
    case .hit(let bytes):
      guard let value = DamageValue.read(bytes) else {
        return "\(key): \(bytes.count) bytes that nobody ever wrote"
      }
      guard value.key == key else { return "\(key): the value of \(value.key)" }
      return judge(key, value.template, value.sequence)
    }
  }

  /// The sequence number of the first value that a process writes to a damaged store.
  static let firstOwnSequence: UInt32 = 9000

  private func judge(_ key: DamageKey, _ template: Int, _ sequence: UInt32) -> String? {
    if uncertain.contains(key), template == model.template {
      let isOwn = written[key].map { $0 == sequence } ?? false
      return isOwn || model.newest[key] == sequence ? nil : "\(key): value \(sequence)"
    }
    if let own = written[key] {
      if template == model.template, sequence == own { return nil }
      // A page that is in the tree twice is freed twice: an older entry of this process returns too.
      if allowance.contains(.older), template == model.template, let own, sequence < own,
        sequence >= DamageOracle.firstOwnSequence || model.history[key]?.contains(sequence) == true
      {
        return nil
      }
      return "\(key): value \(sequence) of template \(template) although this process wrote "
        + (own.map { "\($0)" } ?? "its removal")
    }
    if template == model.template {
      if model.newest[key] == sequence { return nil }
      if allowance.contains(.older), model.history[key]?.contains(sequence) == true { return nil }
      return model.newest[key].map { "\(key): stale: value \(sequence), acknowledged was \($0)" }
        ?? "\(key): value \(sequence), but it was removed or has expired"
    }
    if allowance.contains(.foreign), let foreign, foreign.template == template,
      foreign.newest[key] == sequence
    {
      return nil
    }
    return "\(key): value \(sequence) of another store (template \(template))"
  }

  /// The sequence number a sound store would answer with.
  package func expected(_ key: DamageKey) -> UInt32? {
    if let own = written[key] { return own }
    return model.newest[key]
  }

  /// Whether a read of this process's own, acknowledged write may be what it is.
  package func judgeOwn(
    _ key: DamageKey, _ read: DamageObservation.Read, isAnnounced: Bool
  ) -> String? {
    var seen = DamageObservation(opening: .opened)
    seen.findings = nil
    if let violation = judge(key, read, in: seen) { return "after a write: \(violation)" }
    guard read == .miss, !uncertain.contains(key), let sequence = expected(key) else { return nil }
    if durability == .cache, isAnnounced { return nil }
    return "after a write: \(key): value \(sequence) was acknowledged and is gone"
  }
}
