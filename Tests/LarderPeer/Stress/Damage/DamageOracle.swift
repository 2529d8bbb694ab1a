// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
package import LarderEngine

// THE REQUIREMENTS OF A DAMAGED STORE
//
// The oracle compares the acknowledged writes (`DamageModel`), the permitted consequences of the
// damage (`PermittedAnomalies`), and the observations of a process that opened the store. It
// requires:
//
//   opening    a cache opens, always; another store opens or fails with a typed error, and then
//              its data file is what it was
//   values     a read returns the newest acknowledged value of its key, byte for byte, or
//              nothing, or a typed error
//   the dead   a key that was removed, cleared or has expired gives no value
//   silence    a store other than a cache whose `verify()` finds nothing gives every key its value:
//              nothing is lost without a finding
//   new writes a write acknowledged after the damage is read, in this process and the next, and a
//              removed key stays removed. A cache may lose both with all else, with an event
//
// Some anomalies are permitted. An older value with a valid checksum can reappear only if its whole
// entry replaces the newest, in pages with fitting numbers: an older copy of data.mdb, or an old
// page copied over a new one with its page number rewritten. No checksum inside the file detects
// these, so exactly these two kinds of damage carry the allowance `.older`, under which any value
// the key ever had passes. Every other kind (flips, zeros, garbage, swaps of pages as they are,
// cuts) cannot make an older value whole, and none is accepted. A valid data file of another store
// is accepted (its data takes precedence over state and shared.table), so under `.foreign` the
// values of the other template pass. A value that was not written for its key never passes.

/// The observations that are permitted after a certain damage and are violations otherwise.
package struct PermittedAnomalies: OptionSet, Sendable {
  package let rawValue: Int
  package init(rawValue: Int) { self.rawValue = rawValue }

  /// Values the key had earlier.
  package static let older = PermittedAnomalies(rawValue: 1)
  /// Values of the other template whose file was put here.
  package static let foreign = PermittedAnomalies(rawValue: 2)
  /// A cache may fail to open too: another file replaces `gate` or the root.
  package static let refusal = PermittedAnomalies(rawValue: 4)
}

/// The observations of one process that opened a damaged store.
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
  /// Whether the store reported an event: it started empty, switched generations, or removed an
  /// entry.
  package var isAnnounced = false
  /// `verify()` before anything was read: `nil` when it threw.
  package var findings: Int?
  package var reads: [DamageKey: Read] = [:]
  /// Keys that a process before this one could not read: they may be gone since.
  package var unreadableBefore: Set<DamageKey> = []
  /// Whether data.mdb is unchanged after opening failed.
  package var isDataUntouched = true

  package init(opening: Opening) { self.opening = opening }
}

/// Decides which observations are violations.
package struct DamageOracle: Sendable {
  package let model: DamageModel
  package let durability: Durability
  package let allowance: PermittedAnomalies
  /// The template whose file was swapped in, with `.foreign`.
  package let foreign: DamageModel?
  /// The keys that this process wrote and their sequence numbers; an inner `nil` is a removal.
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
      if durability != .cache, !seen.isDataUntouched {
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
      guard durability != .cache, seen.findings == 0, expected(key) != nil,
        !seen.unreadableBefore.contains(key), !uncertain.contains(key),
        allowance.isDisjoint(with: [.older, .foreign])
      else { return nil }
      return "\(key): lost in silence: verify() finds nothing, and value \(expected(key)!) is gone"
    case .hit(let bytes):
      guard let value = DamageValue.read(bytes) else {
        return "\(key): \(bytes.count) bytes that were never written"
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
      // A page that is in the tree twice is freed twice: an older entry of this process returns
      // too.
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
#endif
