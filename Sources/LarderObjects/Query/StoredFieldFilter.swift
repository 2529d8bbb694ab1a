// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// A predicate that is evaluated on stored bytes, without decoding the object.
///
/// It is not generic, because a query evaluates it for each object: generic code finds its types again
/// in each call.
struct StoredFieldFilter: Sendable {
  /// Returns whether an object matches, or `nil` if it must be decoded to decide.
  let holds: @Sendable (RawSpan) -> Bool?
  /// Whether stored fields decide the whole predicate.
  let isComplete: Bool

  /// Creates the filter of a predicate.
  ///
  /// - Returns: The filter, or `nil` if the predicate requires a decoded object.
  init?<Object>(
    _ predicate: ObjectPredicate<Object>, _ kind: ObjectTypeDescriptor<Object>,
    _ record: ObjectTypeRecord
  ) {
    guard !kind.fields.isEmpty, !kind.hasReferences, record.references == nil else {
      return nil
    }
    self.init(predicate.node, kind.fields, record.layouts)
  }

  private init?<Object>(
    _ node: ObjectPredicate<Object>.Node, _ fields: [AnyPath: DeclaredField],
    _ layouts: ObjectLayouts?
  ) {
    switch node {
    case .tooDeep: return nil
    case .all: self.init(isComplete: true) { _ in true }
    case .leaf(let leaf):
      guard let property = leaf.stored?(), let field = fields[property.path] else { return nil }
      self.init(
        isComplete: true,
        Self.evaluating(FieldLocator(field.key, layouts), property.holds) {
          property.holdsWithout(field)
        })
    case .and(let nodes):
      // What matches the known parts must be decoded for the others.
      let filters = nodes.all.map { Self($0, fields, layouts) }
      let known = filters.compactMap { $0 }
      if known.isEmpty { return nil }
      self.init(isComplete: known.count == nodes.count && known.allSatisfy(\.isComplete)) {
        Self.all(known, hold: $0, isComplete: known.count == nodes.count)
      }
    case .or(let nodes):
      let known = nodes.all.compactMap { Self($0, fields, layouts) }
      guard known.count == nodes.count else { return nil }
      self.init(isComplete: known.allSatisfy(\.isComplete)) { Self.any(known, holds: $0) }
    case .not(let inner):
      guard let inner = Self(inner, fields, layouts) else { return nil }
      self.init(isComplete: inner.isComplete) { inner.holds($0).map { !$0 } }
    }
  }

  private init(isComplete: Bool, _ holds: @escaping @Sendable (RawSpan) -> Bool?) {
    self.isComplete = isComplete
    self.holds = holds
  }

  /// Returns the evaluation of one field, without generic code.
  private static func evaluating(
    _ locator: FieldLocator, _ holds: @escaping @Sendable (RawSpan) -> Bool?,
    holdsWithout: @escaping @Sendable () -> Bool?
  ) -> @Sendable (RawSpan) -> Bool? {
    { object in
      switch locator.find(in: object) {
      case .found(let range): holds(object.slice(range)!)
      case .missing: holdsWithout()
      case .unclear: nil
      }
    }
  }

  private static func all(_ filters: [Self], hold object: RawSpan, isComplete: Bool) -> Bool? {
    var all: Bool? = isComplete ? true : nil
    for filter in filters {
      switch filter.holds(object) {
      case false?: return false
      case nil: all = nil
      case true?: break
      }
    }
    return all
  }

  private static func any(_ filters: [Self], holds object: RawSpan) -> Bool? {
    var any: Bool? = false
    for filter in filters {
      switch filter.holds(object) {
      case true?: return true
      case nil: any = nil
      case false?: break
      }
    }
    return any
  }
}
