// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
internal import Synchronization

// An encoder of the store carries a collector in its user info. Every reference reports its path in
// the object, its ids and the objects that were assigned to it.

/// The references of one object, collected while the object is encoded.
final class ReferenceCollector: Sendable {
  /// One reference.
  struct Link: Sendable {
    /// The coding keys of the path.
    let path: [String]
    /// The stored name of the type referred to.
    let target: String
    let ids: [String]
    let box: ObjectIdentifier
    /// Whether the object cannot be decoded without the object referred to.
    let isRequired: Bool
  }

  private struct State {
    var links: [Link] = []
    var children: [any PendingChild] = []
  }

  private let state = Mutex(State())

  func add<Target: Storable>(
    _ box: ReferenceBox<Target>, at codingPath: [any CodingKey], isRequired: Bool = false
  ) {
    let link = Link(
      path: codingPath.map(\.stringValue), target: Target.storedName, ids: box.ids,
      box: ObjectIdentifier(box), isRequired: isRequired)
    let changes = box.changes
    state.withLock { state in
      state.links.append(link)
      guard let changes else { return }
      for (id, object) in zip(link.ids, changes.objects) {
        let baseline = changes.baseline.isEmpty ? nil : changes.baseline[id]
        state.children.append(PendingObject(object: object, baseline: baseline))
      }
    }
  }

  /// Whether the collector found no references, so that it can be reused.
  var isEmpty: Bool { state.withLock { $0.links.isEmpty && $0.children.isEmpty } }

  var links: [Link] { state.withLock { $0.links } }
  var children: [any PendingChild] { state.withLock { $0.children } }
}

/// An encoder with a collector for its references.
struct ReferenceEncoder: Sendable {
  let collector: ReferenceCollector
  let cbor: CBOREncoder

  init(_ collector: ReferenceCollector = ReferenceCollector()) {
    self.collector = collector
    var encoder = CBOREncoder()
    encoder.userInfo[.links] = collector
    cbor = encoder
  }
}

/// A child to save with its parent.
protocol PendingChild: Sendable {
  var reference: ObjectIdentity { get }

  /// Saves the child if it was changed.
  ///
  /// - Parameter versioned: The versioned save, in which a change of the child elsewhere is an error.
  /// - Returns: The children of the child.
  func save(
    in transaction: inout ObjectTransaction, _ policy: ChildPolicy, _ versioned: VersionedSave?
  ) throws -> [any PendingChild]
}

struct PendingObject<Object: Storable>: PendingChild {
  let object: Object
  /// The loaded object that was assigned again, changed or unchanged.
  let baseline: Object?

  var reference: ObjectIdentity {
    ObjectIdentity(type: Object.storedName, id: ObjectTypeDescriptor<Object>.bytes(of: object.id))
  }

  func save(
    in transaction: inout ObjectTransaction, _ policy: ChildPolicy, _ versioned: VersionedSave?
  ) throws -> [any PendingChild] {
    try transaction.store(
      object, transaction.store.kind(Object.self),
      asChild: ChildSaving(baseline: baseline, policy: policy, versioned: versioned))
  }
}
