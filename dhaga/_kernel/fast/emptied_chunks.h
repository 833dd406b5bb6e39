/* Part of _frame_chunks.c: chunks above the cap, on Linux.

Linux takes the memory of a freed chunk back, but not its address, which serves a later request (an emptied
chunk). munmap() would cut the mapping, into which Linux has joined the chunks, in two: 100,000 sleepers that wake in any
order took 32 µs of CPU time each, and take 25. It would also be refused, and the memory lost, once a process has 65,530
mappings. The price: addresses, though no memory, stay with the thread that freed the most chunks at once. */

/* Take the address of an emptied chunk. Returns: NULL without one. A fork in another thread copies a whole list: a page is
taken out before it is freed. */
static void *
take_address(keeper *of)
{
    address_page *page = of->pages;
    void *address;

    if (page == NULL) {
        return NULL;
    }
    address = page->addresses[page->count - 1];
    count(&of->emptied, (size_t)-1);
    if (page->count > 1) {
        page->count--;
    }
    else {
        of->pages = page->next;
        atomic_thread_fence(memory_order_release);
        free(page);
    }
    return address;
}

/* Unmap all emptied chunks. */
static void
free_addresses(keeper *of)
{
    void *address;

    while ((address = take_address(of)) != NULL) {
        former.free(former.ctx, address, CHUNK);
    }
}

/* Give the memory of a chunk back to the system, and keep its address. Returns: 0 where that cannot be done. */
static int
empty_chunk(keeper *to, void *chunk)
{
#ifdef __linux__
    address_page *page = to->pages;

    if (page_size == 0 || (uintptr_t)chunk % page_size != 0) {
        return 0;
    }
    if (page == NULL || page->count == ADDRESSES) {
        page = malloc(sizeof(address_page));
        if (page == NULL) {
            return 0;
        }
        page->next = to->pages;
        page->count = 0;
    }
    if (madvise(chunk, CHUNK, MADV_DONTNEED) != 0) { /* locked by mlockall() */
        if (page != to->pages) {
            free(page);
        }
        return 0;
    }
    page->addresses[page->count] = chunk;
    atomic_thread_fence(memory_order_release);
    page->count++;
    atomic_thread_fence(memory_order_release);
    to->pages = page;
    count(&to->emptied, 1);
    return 1;
#else
    (void)to;
    (void)chunk;
    return 0;
#endif
}
