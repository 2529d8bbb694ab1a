// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

/// The result of a computation that decides how long its value is valid; see
/// ``PersistentCache/computedValue(forKey:refresh:_:)``.
public struct Computed<Value: Sendable>: Sendable {
  enum Kind: Sendable {
    case value(Value)
    case unchanged
    case absent
  }

  let kind: Kind
  let attributes: EntryAttributes

  private init(_ kind: Kind, _ attributes: EntryAttributes) {
    self.kind = kind
    self.attributes = attributes
  }

  /// Creates the result of a new value.
  ///
  /// - Parameters:
  ///   - value: The value.
  ///   - expires: The expiration of the value.
  ///   - tags: The tags of the value.
  public init(_ value: Value, expires: Expiration = .never, tags: [String] = []) {
    self.init(.value(value), EntryAttributes(expires, tags: tags))
  }

  /// Returns the result that the old value, which the computation was passed, is still valid: it gets
  /// another expiration and keeps its tags.
  public static func unchanged(expires: Expiration) -> Computed {
    Computed(.unchanged, EntryAttributes(expires))
  }

  /// Returns the result that the key has no value. Until the negative entry expires, no process
  /// computes the key again.
  ///
  /// - Parameters:
  ///   - lifetime: The time for which the negative entry is kept.
  ///   - tags: The tags of the negative entry.
  public static func absent(for lifetime: Duration, tags: [String] = []) -> Computed {
    Computed(.absent, EntryAttributes(.after(lifetime), tags: tags, isAbsent: true))
  }
}

/// The content that a computation stores.
enum ComputedContent<Value: Sendable>: Sendable {
  case nothing
  case value(Value, EntryAttributes)
  /// The value that the computation was passed, with another expiration.
  case unchanged(EntryAttributes)
  case absent(EntryAttributes)

  /// The outcome as monitors get it.
  var outcome: ComputationReport.Outcome {
    switch self {
    case .nothing: .nothing
    case .value: .value
    case .unchanged: .unchanged
    case .absent: .absent
    }
  }

  /// Returns the content with the attributes of a refresh.
  func noting(_ refresh: Refresh, computeTime: Duration) -> Self {
    func noted(_ attributes: EntryAttributes) -> EntryAttributes {
      var attributes = attributes
      attributes.kept = refresh.kept
      if refresh.early > 0 {
        attributes.computeTime = UInt32(clamping: max(computeTime.milliseconds, 1))
      }
      return attributes
    }
    switch self {
    case .nothing, .absent: return self
    case .value(let value, let attributes): return .value(value, noted(attributes))
    case .unchanged(let attributes): return .unchanged(noted(attributes))
    }
  }
}

/// The computation of a key that is not stored. Its result is a value, or `nil` if there is none.
struct Computation<Value: Sendable>: Sendable {
  /// The tags that the result will have, as far as they are known.
  var tags: [String] = []
  var refresh = Refresh.never
  /// The value that is to be replaced although it may not have expired.
  var replacing: LoadedValue<Value>?
  /// The reason of the computation, for monitors.
  var reason = MonitoredComputation.Reason.miss
  /// Whether `body` is interested in the expired value of the key.
  var usesOldValue = false
  /// Whether the result may be `nil`.
  var mayBeNil = true
  /// Whether the flight of another caller whose result may be `nil` can give the result.
  var joinsAny = true
  /// Whether a negative entry is a result.
  var acceptsAbsence = true
  /// Computes the result. Is passed the expired value of the key, if there is one.
  let body: @Sendable (Value?) async throws -> (result: Value?, content: ComputedContent<Value>)

  /// Returns the result for what is stored for the key, or `nil` if it is to be computed.
  func stored(_ state: KeyState<Value>) -> Value?? {
    switch state {
    case .value(let value): .some(value)
    case .absent: acceptsAbsence ? .some(nil) : nil
    case .unknown: nil
    }
  }
}
