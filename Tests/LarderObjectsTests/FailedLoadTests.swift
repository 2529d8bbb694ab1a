// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// A type whose decoding fails for a certain title.
private struct Photo: Storable, Equatable {
  static let storedName = "Photo"
  struct Broken: Error {}

  let id: Int
  var title: String

  enum CodingKeys: CodingKey { case id, title }

  init(id: Int, title: String) { (self.id, self.title) = (id, title) }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    title = try container.decode(String.self, forKey: .title)
    if title == "broken" { throw Broken() }
  }
}

private struct Album: Storable, Equatable {
  let id: Int
  var name: String
  @HasMany var photos: [Photo] = []
  @HasOne var cover: Photo? = nil
  static let storedName = "Album"
}

@Suite(.timeLimit(.minutes(60))) struct FailedLoadTests {
  private let ground: StoreFixture
  private var store: ObjectStore { ground.store }

  init() throws {
    ground = try StoreFixture(StoreOptions())
    try ground.store.save(
      Album(
        id: 1, name: "a",
        photos: ["x", "broken", "z"].enumerated().map { Photo(id: $0.offset, title: $0.element) },
        cover: Photo(id: 7, title: "broken")))
  }

  private func album() throws -> Album {
    let other = try ObjectStore(at: ground.path, StoreOptions())
    return try #require(try other.object(Album.self, id: 1))
  }

  private func stored() throws -> (photos: [String], cover: String?) {
    let album = try #require(try store.object(Album.self, id: 1))
    return (album.$photos.ids, album.$cover.id)
  }

  @Test func `A relation that fails to load shows what loads, the error and all ids, and is kept`()
    throws
  {
    let fresh = try ObjectStore(at: ground.path, StoreOptions())
    var album = try #require(try fresh.object(Album.self, id: 1))
    #expect(album.$photos.loadError == nil)
    #expect(album.photos.map(\.title) == ["x", "z"])
    #expect((album.$photos.loadError as? ObjectError)?.ids == ["1"])
    #expect(album.$photos.ids == ["0", "1", "2"])
    #expect(throws: ObjectError.self) { try album.$photos.load() }
    #expect(album.cover == nil && album.$cover.loadError != nil && album.$cover.id == "7")
    album.name = "b"
    try fresh.save(album)
    let kept = try stored()
    #expect(kept.photos == ["0", "1", "2"] && kept.cover == "7")
    #expect(try store.object(Album.self, id: 1)?.name == "b")
  }

  @Test func `Assigning to a relation that failed to load makes the save fail and keeps the ids`()
    throws
  {
    let fresh = try ObjectStore(at: ground.path, StoreOptions())
    var album = try #require(try fresh.object(Album.self, id: 1))
    album.photos.append(Photo(id: 9, title: "new"))
    album.photos.append(Photo(id: 10, title: "newer"))
    var covered = try #require(try fresh.object(Album.self, id: 1))
    if covered.cover == nil { covered.cover = Photo(id: 11, title: "cover") }
    for (album, path) in [(album, "photos"), (covered, "cover")] {
      let error = #expect(throws: ObjectError.self) { try fresh.save(album) }
      #expect(error?.code == .notLoaded && error?.ids.first == "1")
      #expect(error?.message.contains("\"\(path)\" was assigned") == true, "\(error!)")
    }
    let kept = try stored()
    #expect(kept.photos == ["0", "1", "2"] && kept.cover == "7")
    #expect(try store.object(Photo.self, id: 9) == nil)
  }

  @Test func `A relation that loads again, or was never read, is assigned and saved`() throws {
    let fresh = try ObjectStore(at: ground.path, StoreOptions())
    var album = try #require(try fresh.object(Album.self, id: 1))
    #expect(album.photos.count == 2)
    try store.save(Photo(id: 1, title: "mended"))
    #expect(try album.$photos.load().count == 3)
    album.photos.removeLast()
    var other = try #require(try fresh.object(Album.self, id: 1))
    try fresh.save(album)
    #expect(try stored().photos == ["0", "1"])
    other.cover = Photo(id: 12, title: "c")
    try fresh.save(other)
    #expect(try stored().cover == "12")
  }
}
