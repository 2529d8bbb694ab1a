// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// A predicate that is evaluated on stored bytes, without decoding the object.
struct StoredFieldFilter<Object: Storable>: Sendable {
  private indirect enum Node: Sendable {
    case all
    case field(DeclaredField, StoredProperty<Object>)
    case unknown
    case and([Node])
    case or([Node])
    case not(Node)

    var isUnknown: Bool { if case .unknown = self { true } else { false } }
  }

  private let root: Node

  /// Creates the filter of a predicate.
  ///
  /// - Returns: The filter, or `nil` if the predicate requires a decoded object.
  init?(
    _ predicate: ObjectPredicate<Object>, _ kind: ObjectTypeDescriptor<Object>,
    _ record: ObjectTypeRecord
  ) {
    guard !kind.fields.isEmpty, !kind.hasReferences, record.references == nil else {
      return nil
    }
    root = Self.node(predicate.node, kind)
    if case .unknown = root { return nil }
  }

  private static func node(
    _ node: ObjectPredicate<Object>.Node, _ kind: ObjectTypeDescriptor<Object>
  )
    -> Node
  {
    switch node {
    case .all: return .all
    case .leaf(let leaf):
      guard let property = leaf.stored?(), let field = kind.fields[property.path] else {
        return .unknown
      }
      return .field(field, property)
    case .and(let nodes):
      let nodes = nodes.map { self.node($0, kind) }
      return nodes.allSatisfy(\.isUnknown) ? .unknown : .and(nodes)
    case .or(let nodes):
      let nodes = nodes.map { self.node($0, kind) }
      return nodes.contains(where: \.isUnknown) ? .unknown : .or(nodes)
    case .not(let inner):
      let inner = self.node(inner, kind)
      return inner.isUnknown ? .unknown : .not(inner)
    }
  }

  /// Returns whether an object matches, or `nil` if it must be decoded to decide.
  func holds(for object: RawSpan) -> Bool? { Self.holds(root, object) }

  private static func holds(_ node: Node, _ object: RawSpan) -> Bool? {
    switch node {
    case .all: return true
    case .unknown: return nil
    case .field(let field, let property):
      switch StoredField.find(field.key, in: object) {
      case .found(let range): return property.holds(object.slice(range)!)
      case .missing: return property.holdsWithout(field)
      case .unclear: return nil
      }
    case .and(let nodes):
      var all: Bool? = true
      for node in nodes {
        switch holds(node, object) {
        case false?: return false
        case nil: all = nil
        case true?: break
        }
      }
      return all
    case .or(let nodes):
      var any: Bool? = false
      for node in nodes {
        switch holds(node, object) {
        case true?: return true
        case nil: any = nil
        case false?: break
        }
      }
      return any
    case .not(let node): return holds(node, object).map { !$0 }
    }
  }
}
