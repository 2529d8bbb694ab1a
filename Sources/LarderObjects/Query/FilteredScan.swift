// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// The objects of a plan, filtered by their stored fields.
///
/// It is not generic, because most objects of a scan end here: a generic function looks its types up
/// in each call.
struct FilteredScan {
  let plan: QueryPlan
  let type: UInt32
  /// Whether objects of the plan may not match.
  let needsFilter: Bool
  /// Evaluates the predicate on stored bytes; returns `nil` if an object must be decoded to decide.
  let holds: (@Sendable (RawSpan) -> Bool?)?

  /// Calls `body` with every object that matches, or may match, until it returns `false`.
  ///
  /// - Parameters:
  ///   - damaged: Called for an object that is damaged.
  ///   - cached: Called first with the sequence number of an object in an index scan; returns `nil`
  ///     if the object must be read.
  ///   - undecoded: Called first for an object that matches; returns `nil` if the object must be
  ///     decoded.
  func visit(
    _ snapshot: borrowing Snapshot, damaged: (DamagedObject) throws -> Bool,
    cached: (UInt64) throws -> Bool?,
    undecoded: ((StoredObjectMetadata, RawSpan) -> Bool?)?,
    _ body: (StoredObjectMetadata, _ id: RawSpan, _ bytes: RawSpan, _ matches: Bool?) throws -> Bool
  ) throws {
    var admits: ((UInt16, RawSpan) -> Bool)?
    if needsFilter, let holds {
      admits = { codec, bytes in !Self.isPlain(codec) || holds(bytes) != false }
    }
    try plan.visit(
      type: type, in: snapshot, damaged: damaged, cached: cached,
      admits: admits
    ) { head, id, bytes in
      let isPlain = Self.isPlain(head.codec)
      var matches: Bool? = true
      if needsFilter { matches = isPlain ? holds?(bytes) : nil }
      if matches == false { return true }
      if isPlain, matches == true, let undecoded, let shouldContinue = undecoded(head, bytes) {
        return shouldContinue
      }
      return try body(head, id, bytes, matches)
    }
  }
  private static func isPlain(_ codec: UInt16) -> Bool {
    codec == ObjectLayout.codec || codec == CodecIdentifier.cbor.rawValue
  }
}
